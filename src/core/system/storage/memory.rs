//! Memory that is left on the node: what a RAM disk's file system does not say.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::space::{Space, space};
use crate::error::Result;

/// Returns the bytes that can be used without swapping; `None` if the kernel does not tell.
#[must_use]
pub fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Returns the bytes that this process's control groups leave (the least over all levels, versions
/// 1 and 2); `None` without a limit. Files on a RAM disk count against it.
#[must_use]
pub fn cgroup_memory_left() -> Option<u64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    memory_left_below(Path::new("/sys/fs/cgroup"), &membership)
}

/// Names of the files that hold limit and use, and of the statistic that can be given back.
struct Version {
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static str,
}

const VERSION_1: Version = Version {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const VERSION_2: Version =
    Version { limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file" };

/// `membership` is the text of /proc/self/cgroup: lines `<number>:<controllers>:<path>`.
fn memory_left_below(root: &Path, membership: &str) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (top, version) = if controllers.is_empty() {
            (root.to_path_buf(), &VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), &VERSION_1)
        } else {
            continue;
        };
        // In a container the group's path may not be visible; its own limit is then at the top.
        for level in levels(&top, group) {
            if let Some(left) = left_at(&level, version) {
                least = Some(least.map_or(left, |least| least.min(left)));
            }
        }
    }
    least
}

fn levels(top: &Path, group: &str) -> Vec<PathBuf> {
    let mut levels = vec![top.to_path_buf()];
    let mut below = top.to_path_buf();
    for part in group.split('/').filter(|part| !matches!(*part, "" | "." | "..")) {
        below.push(part);
        levels.push(below.clone());
    }
    levels
}

fn left_at(dir: &Path, version: &Version) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
    };
    // "max" in version 2 is no number; version 1 writes a number near 2^63 instead.
    let limit = number(version.limit).filter(|limit| *limit < 1 << 60)?;
    let usage = number(version.usage)?;
    let reclaimable = fs::read_to_string(dir.join("memory.stat"))
        .ok()
        .and_then(|text| {
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(' ')?;
                if key == version.reclaimable { value.trim().parse().ok() } else { None }
            })
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
}

pub fn room(path: &Path) -> Result<u64> {
    Ok(Memory::default().room(&space(path)?, 0))
}

/// What is left of the node's memory and the control group's. An answer serves for a moment those
/// who want little of it: the kernel takes longer for it than a small file does.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Option<LastAnswer>>);

#[derive(Debug)]
struct LastAnswer {
    given: Instant,
    left: u64,
    wanted: u64,
}

impl Memory {
    const FRESH: Duration = Duration::from_secs(1);
    /// All that is wanted meanwhile is at most so small a part of it.
    const SMALL: u64 = 64;

    /// Returns the bytes that may still be put into the file system that has `space`: what it has
    /// free and, if it lives in memory, half of the least of that, of the node's free memory and of
    /// the control group's. The half is for the program. To be divided by the ranks of the node,
    /// which are going to put `wanted` bytes there.
    pub fn room(&self, space: &Space, wanted: u64) -> u64 {
        if !space.in_memory {
            return space.free_bytes;
        }
        space.free_bytes.min(self.left(wanted)) / 2
    }

    fn left(&self, wanted: u64) -> u64 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &mut *last {
            last.wanted = last.wanted.saturating_add(wanted);
            if last.wanted <= last.left / Self::SMALL && last.given.elapsed() < Self::FRESH {
                return last.left - last.wanted;
            }
        }
        let least = [memory_available(), cgroup_memory_left()].into_iter().flatten().min();
        let left = least.unwrap_or(u64::MAX);
        *last = Some(LastAnswer { given: Instant::now(), left, wanted });
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_tightest_level_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        put(root, "job/memory.max", "1000\n");
        put(root, "job/memory.current", "700\n");
        put(root, "job/memory.stat", "anon 500\ninactive_file 100\n");
        put(root, "job/step/memory.max", "max\n");
        put(root, "job/step/memory.current", "600\n");
        assert_eq!(memory_left_below(root, "0::/job/step\n"), Some(400));
        assert_eq!(memory_left_below(root, "0::/other\n"), None);
        assert_eq!(memory_left_below(root, "garbage\n1\n"), None);
    }

    #[test]
    fn version_1_and_no_limit() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        put(root, "memory/a/memory.limit_in_bytes", "500");
        put(root, "memory/a/memory.usage_in_bytes", "600");
        put(root, "memory/memory.limit_in_bytes", "9223372036854771712");
        put(root, "memory/memory.usage_in_bytes", "600");
        assert_eq!(memory_left_below(root, "3:cpu:/a\n2:memory,x:/a\n"), Some(0));
        assert_eq!(memory_left_below(root, "2:memory:/\n"), None);
    }

    #[test]
    fn room_of_a_ram_disk_is_at_most_half_of_memory() {
        let available = memory_available().unwrap();
        assert!(available > 0);
        let shm = Path::new("/dev/shm");
        assert!(room(shm).unwrap() <= space(shm).unwrap().free_bytes / 2);
    }

    #[test]
    fn who_wants_little_asks_the_kernel_once() {
        let memory = Memory::default();
        let answer = |wanted, left| Some(LastAnswer { given: Instant::now(), left, wanted });
        *memory.0.lock().unwrap() = answer(0, 6400);
        assert_eq!((memory.left(60), memory.left(40)), (6340, 6300));
        assert!(memory.left(1) > 6400, "all together it is more than little");
        let real = memory.left(0);
        *memory.0.lock().unwrap() = answer(0, real + 12345);
        assert_eq!(memory.left(0), real + 12345);
        assert_ne!(memory.left(u64::MAX), real + 12345, "that is not little");
    }
}
