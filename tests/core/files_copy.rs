//! Copies: content, holes, mode, times, checksum, progress; and what happens when they fail.

use std::fs::{self, File, Permissions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use scr_core::error::Error;
use scr_core::files::{CopyOptions, Durable, copy_file, crc32, crc32_of_file};

/// 1 MiB hole, some data, 2 MiB hole, data, a hole at the end. On the RAM disk, which keeps holes.
fn sparse(path: &Path) -> Vec<u8> {
    let mut file = File::create(path).unwrap();
    for (at, text) in [(1 << 20, "first"), (3 << 20, "second")] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(text.repeat(1000).as_bytes()).unwrap();
    }
    file.set_len(8 << 20).unwrap();
    file.set_permissions(Permissions::from_mode(0o4751)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789)).unwrap();
    fs::read(path).unwrap()
}

#[test]
fn holes_mode_times_and_checksum_come_along() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let content = sparse(&from);
    for crc in [true, false] {
        // An older, longer file is replaced as a whole.
        fs::write(&to, vec![7; 9 << 20]).unwrap();
        let mut moved = 0;
        let mut count = |bytes| {
            moved += bytes;
            Ok(())
        };
        let options = CopyOptions {
            buffer_bytes: 1000,
            crc32: crc,
            progress: Some(&mut count),
            ..CopyOptions::default()
        };
        let copied = copy_file(&from, &to, options).unwrap();
        assert_eq!(copied.bytes, content.len() as u64);
        assert_eq!(copied.crc32, crc.then(|| crc32(&content)));
        assert_eq!(crc32_of_file(&to).unwrap(), (copied.bytes, crc32(&content)));
        let (old, new) = (from.metadata().unwrap(), to.metadata().unwrap());
        assert_eq!(new.mode(), old.mode());
        assert_eq!((new.mtime(), new.mtime_nsec()), (old.mtime(), old.mtime_nsec()));
        assert!(new.blocks() <= old.blocks(), "{} {}", new.blocks(), old.blocks());
        assert!((11_000..1 << 20).contains(&moved), "{moved}");
    }
}

#[test]
fn empty_files_and_plain_files() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for content in [&b""[..], b"x", &[1; 5000]] {
        fs::write(&from, content).unwrap();
        let options = CopyOptions { buffer_bytes: 0, sync: false, ..CopyOptions::default() };
        assert_eq!(copy_file(&from, &to, options).unwrap().crc32, Some(crc32(content)));
        assert_eq!(fs::read(&to).unwrap(), content);
    }
}

#[test]
fn what_cannot_be_copied_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, link) =
        (dir.path().join("from"), dir.path().join("to"), dir.path().join("link"));
    let copy = |from: &Path, to: &Path| copy_file(from, to, CopyOptions::default());
    assert!(copy(&from, &to).unwrap_err().to_string().contains("from"));
    assert!(copy(dir.path(), &to).is_err());
    fs::write(&from, "new").unwrap();
    fs::write(&to, "old").unwrap();
    std::os::unix::fs::symlink(&to, &link).unwrap();
    assert!(copy(&from, &link).is_err());
    assert_eq!(fs::read(&to).unwrap(), b"old");
}

#[test]
fn progress_can_end_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, vec![1; 10_000]).unwrap();
    let mut stop = |_| Err(Error::Stopped);
    let options =
        CopyOptions { buffer_bytes: 100, progress: Some(&mut stop), ..CopyOptions::default() };
    assert_eq!(copy_file(&from, &to, options).unwrap_err().to_string(), "stopped");
    assert!(to.metadata().unwrap().len() < 10_000);
}

#[test]
fn a_full_store_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::write(&from, vec![1; 10_000]).unwrap();
    for crc in [true, false] {
        let options = CopyOptions { crc32: crc, ..CopyOptions::default() };
        let error = copy_file(&from, Path::new("/dev/full"), options).unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    }
}

#[test]
fn a_copy_goes_on_where_an_earlier_one_came_to_and_says_what_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let content: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&from, &content).unwrap();
    std::fs::write(&to, [0; 5000]).unwrap();
    let (mut moved, mut durable) = (0, Vec::new());
    let mut progress = |bytes| {
        moved += bytes;
        Ok(())
    };
    let mut note = |at| {
        durable.push(at);
        Ok(())
    };
    let options = CopyOptions {
        buffer_bytes: 1000,
        resume_at: 4500,
        progress: Some(&mut progress),
        durable: Some(Durable { every_bytes: 2000, note: &mut note }),
        ..CopyOptions::default()
    };
    let copied = copy_file(&from, &to, options).unwrap();
    let found = std::fs::read(&to).unwrap();
    assert!(found[..4500] == [0; 4500] && found[4500..] == content[4500..]);
    assert_eq!(copied.crc32, Some(crc32(&content)));
    assert_eq!((moved, durable), (5500, vec![6500, 8500]));
}

#[test]
fn an_owner_that_the_program_gave_comes_along_and_a_group_of_the_directory_stays() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("given/to"));
    fs::write(&from, "x").unwrap();
    fs::create_dir(dir.path().join("given")).unwrap();
    // Only root may give files away; for others there is nothing to be seen.
    if chown(dir.path().join("given"), None, Some(54321)).is_err() {
        return;
    }
    fs::set_permissions(dir.path().join("given"), Permissions::from_mode(0o2755)).unwrap();
    let owner = |path: &Path| {
        let found = path.metadata().unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    fs::set_permissions(&from, Permissions::from_mode(0o640)).unwrap();
    copy_file(&from, &to, CopyOptions::default()).unwrap();
    assert_eq!(owner(&to), (owner(&from).0, 54321, 0o640));
    chown(&from, Some(12345), Some(12346)).unwrap();
    fs::set_permissions(&from, Permissions::from_mode(0o4750)).unwrap();
    copy_file(&from, &to, CopyOptions::default()).unwrap();
    assert_eq!(owner(&to), (12345, 12346, 0o4750));
}
