//! A checkpoint some of whose files have to lie on the prefix, while the caches have others.

use super::cluster::Rank;
use super::scene::{below, place};

const HOSTS: &str = "aabb";
const STEPS: u64 = 7;

fn write(rank: &Rank, step: u64) {
    let _ = rank.files.make_dir("ckpt");
    let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    let name = format!("ckpt/step_{step}/all.dat");
    let file = rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap();
    // Both nodes write it, so that no part can be cached.
    file.write_at(format!("step {step}").as_bytes(), 0).unwrap();
    file.close().unwrap();
    rank.files.write_file(&format!("ckpt/step_{step}/{}", rank.rank), b"own").unwrap();
    rank.calm();
}

/// The prefix would keep half of each checkpoint that is not to be flushed: a restart without the
/// caches would take the newest of them.
#[test]
fn a_checkpoint_that_is_partly_on_the_prefix_goes_there_as_a_whole() {
    let settings = ["SCR_LEARN=1", "SCR_FLUSH=100", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
    let cluster = place(&settings);
    let got = cluster.run(HOSTS, |rank| {
        (1..=STEPS).for_each(|step| write(rank, step));
        // Rank 0's own file of the last one is cached.
        rank.barrier();
        let own = format!("ckpt/step_{STEPS}/0");
        let here = below(&cluster.node('a')).iter().any(|path| path.ends_with(&own));
        rank.barrier();
        rank.finish();
        here
    });
    got.all().into_iter().for_each(|cached| assert!(*cached, "{:?}", got.told));
    let tree = cluster.tree();
    for step in 1..=STEPS {
        let names = (0..HOSTS.len()).map(|rank| rank.to_string()).chain(["all.dat".into()]);
        let missing = names.filter(|name| !tree.contains_key(&format!("ckpt/step_{step}/{name}")));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<String>::new(), "step {step}");
    }
}
