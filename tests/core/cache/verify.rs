//! A look at what the prefix has of a dataset.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use scr_core::cache::{self, Ctx};
use scr_core::transfer::{self, Check, FetchStore, Fetched, Unchecked, Verified, fetch};

use super::cluster::{Cluster, IDENTITY, checkpoint, content, descriptor, run_and_seal};
use super::flush::files_below;

/// Ranks 0 and 2 have three files of dataset 1 on the prefix.
fn flushed(ids: &[u64]) -> Cluster {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &ids[..1], "PARTNER");
    cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        for id in ids {
            if *id != ids[0] {
                checkpoint(ctx, *id, "PARTNER", true).unwrap();
            }
            transfer::flush_sync(ctx, *id, &|_| false).unwrap();
        }
    });
    cluster
}

/// The same on all ranks.
fn look(cluster: &Cluster, check: Check) -> Verified {
    let launch = cluster.launch("abc");
    let seen = launch.run(|ctx| transfer::verify_on_prefix(ctx, 1, check).unwrap());
    let seen: Vec<Verified> = seen.results.into_iter().map(Option::unwrap).collect();
    assert!(seen.windows(2).all(|two| two[0] == two[1]), "{seen:?}");
    seen.into_iter().next().unwrap()
}

fn file(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.prefix().join("ckpt/10").join(name)
}

/// All files get the times of now, as if they had been copied there and back.
fn touch_all(cluster: &Cluster) {
    for path in files_below(&cluster.prefix().join("ckpt/10")) {
        let later = SystemTime::now() + Duration::from_secs(5);
        File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
    }
}

fn damage(path: &PathBuf) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 900).unwrap();
    file.write_all_at(&bytes.map(|byte| byte ^ 0x55), 900).unwrap();
}

#[test]
fn a_file_that_was_cut_short_is_no_ones_word_though_all_have_new_times() {
    let cluster = flushed(&[1]);
    touch_all(&cluster);
    let copied = look(&cluster, Check::Contents);
    assert_eq!((copied.anew, copied.gone, copied.fault, copied.remark), (true, false, None, None));
    let size = content(10, 2)["ckpt/10/rank_2.dat"].len();
    File::options().write(true).open(file(&cluster, "rank_2.dat")).unwrap().set_len(77).unwrap();
    touch_all(&cluster);
    for check in [Check::Sizes, Check::Contents] {
        let cut = look(&cluster, check);
        let fault = format!("ckpt/10/rank_2.dat has 77 bytes, and had {size} when it was complete");
        assert_eq!((cut.anew, cut.gone, cut.fault), (false, false, Some(fault)));
    }
}

#[test]
fn the_files_of_another_state_are_somebodys_word_and_told_of() {
    let cluster = flushed(&[1]);
    File::options().write(true).open(file(&cluster, "rank_2.dat")).unwrap().set_len(77).unwrap();
    // As long as before; only its content tells.
    damage(&file(&cluster, "rank_0.dat"));
    touch_all(&cluster);
    for check in [Check::Sizes, Check::Contents] {
        let other = look(&cluster, check);
        assert_eq!((other.anew, other.gone, other.fault), (true, true, None));
        let remark = other.remark.unwrap();
        assert!(remark.starts_with("all its files were written anew since (ckpt/10/"), "{remark}");
    }
}

#[test]
fn one_rank_reads_what_newer_datasets_have() {
    let cluster = flushed(&[1, 2]);
    // As if both had a file of this name, and the newer one's content were there.
    let own = |id: u64| cluster.prefix().join(format!(".scr/scr.dataset.{id}/summary.scr"));
    fs::copy(own(1), own(2)).unwrap();
    damage(&file(&cluster, "rank_2.dat"));
    // The rank that looks at the file reads no index: it sees another folder, without one.
    let bare = cluster.prefix().with_extension("bare");
    fs::create_dir(&bare).unwrap();
    symlink(cluster.prefix().join("ckpt"), bare.join("ckpt")).unwrap();
    let outcome = cluster.launch("abc").run(|ctx| {
        let prefix = if ctx.world.rank() == 0 { ctx.prefix } else { &bare };
        let ctx = Ctx { prefix, ..*ctx };
        let found = transfer::verify_on_prefix(&ctx, 1, Check::Contents).unwrap();
        assert_eq!((found.gone, found.fault), (false, None));
        for host in ["a", "b", "c"] {
            if ctx.world.rank() == 0 {
                cluster.lose(host);
            }
        }
    });
    assert!(outcome.results.iter().all(Option::is_some));
    let outcome = cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        let prefix = if ctx.world.rank() == 0 { ctx.prefix } else { &bare };
        let ctx = Ctx { prefix, ..*ctx };
        match fetch(&ctx, 1, FetchStore { name: "ram", capacity: u64::MAX }, &descriptor("PARTNER"))
            .unwrap()
        {
            Fetched::Cached(offered) => offered.files,
            other => panic!("{other:?}"),
        }
    });
    let files = outcome.results[2].as_ref().unwrap();
    let read_there = files.iter().find(|file| file.name == "ckpt/10/rank_2.dat").unwrap();
    assert!(read_there.on_prefix && files.iter().any(|file| !file.on_prefix));
}

#[test]
fn what_has_no_checksum_is_said() {
    let cluster = flushed(&[1]);
    assert_eq!(look(&cluster, Check::Contents).unchecked, Unchecked::default());
    // As of a file that the program wrote to the prefix itself.
    let name = "ckpt/10/rank_0.dat";
    let size = content(10, 0)[name].len() as u64;
    cluster.launch("abc").run(|ctx| {
        if ctx.world.rank() == 0 {
            use scr_core::records::{Record as _, Summary};
            let path = ctx.prefix.join(".scr/scr.dataset.1/summary.scr");
            let mut summary = Summary::read(&path).unwrap().unwrap();
            let meta = &mut summary.files.get_mut(&0).unwrap()[0];
            (meta.on_prefix, meta.crc32) = (true, None);
            summary.write(&path).unwrap();
        }
    });
    let unchecked = |touched| Unchecked { files: 1, bytes: size, touched };
    assert_eq!(look(&cluster, Check::Contents).unchecked, unchecked(None));
    damage(&file(&cluster, "rank_0.dat"));
    let found = look(&cluster, Check::Contents);
    assert_eq!((found.fault, found.unchecked), (None, unchecked(Some(name.to_owned()))));
}
