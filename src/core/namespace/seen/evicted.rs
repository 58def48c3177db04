//! Names of files that have left the cache before they were due: stat and listings have them until
//! the program deletes them. The PFS is asked for such a file only when somebody asks for its name:
//! at its eviction every rank would ask for each file of the job.

use scr_abi::wire::FileStat;

use super::view::View;

impl View {
    pub fn leave_evicted(&mut self, name: String, attributes: FileStat) {
        if !self.deleted.contains(&name) && !self.deleted_by.has(&name) {
            self.evicted_names.insert(name, attributes);
        }
    }

    /// Renames one; it goes where no name of ours is with `None`.
    pub fn rename_evicted(&mut self, from: &str, to: Option<&str>) {
        let attributes = self.evicted_names.get(from).copied();
        self.delete(from);
        if let Some((to, attributes)) = to.zip(attributes) {
            self.leave_evicted(to.to_string(), attributes);
        }
    }

    pub fn evicted_names(&self) -> impl Iterator<Item = (&str, &FileStat)> {
        self.evicted_names.iter().map(|(name, attributes)| (name.as_str(), attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DatasetKey;
    use crate::namespace::{Layer, Place};

    #[test]
    fn a_deleted_name_is_absent_though_an_older_file_of_it_has_left() {
        let dirs = tempfile::tempdir().unwrap();
        std::fs::write(dirs.path().join("x"), "").unwrap();
        let mut view = View::default();
        let mode = libc::S_IFREG;
        let attributes = FileStat { size: 1, mode, ino: 1, ..FileStat::default() };
        view.leave_evicted("x".into(), attributes);
        view.put(Layer::new(DatasetKey::new(0, "", 1), dirs.path().to_path_buf()));
        assert!(matches!(view.place("x"), Place::Cached(..)));
        view.delete("x");
        assert_eq!(view.place("x"), Place::Deleted);
    }

    #[test]
    fn what_the_prefix_has_under_the_name_is_there_and_gone_with_its_deletion() {
        let prefix = tempfile::tempdir().unwrap();
        let mut view = View::of(prefix.path().to_path_buf());
        view.leave_evicted("x".into(), FileStat::default());
        assert!(matches!(view.place("x"), Place::Evicted(_)));
        std::fs::write(prefix.path().join("x"), "").unwrap();
        assert_eq!(view.place("x"), Place::Prefix);
        std::fs::remove_file(prefix.path().join("x")).unwrap();
        view.delete("x");
        assert_eq!(view.place("x"), Place::Prefix);
    }
}
