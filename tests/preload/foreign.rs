//! Names that are not ours cost one question.

use crate::programs::succeeded;
use crate::shim::{Place, program};

#[test]
fn a_foreign_name_is_asked_about_once_until_something_changes() {
    let place = Place::new();
    succeeded(&place.preloaded(program("foreign")).output().unwrap());
    let events = place.events();
    let section = |name: &str| -> Vec<&str> {
        let mark = |line: &&String| line.starts_with("lookup") && !line.contains("n_");
        let rest = events.iter().skip_while(|line| **line != format!("lookup {name} 0")).skip(1);
        rest.take_while(|line| !mark(line)).map(String::as_str).collect()
    };
    let questions = |name: &str| section(name).len();
    // Creating it showed nothing yet: a name that is not there could become a link unseen.
    assert_eq!(section("first"), ["open n_file 66"]);
    assert_eq!(questions("absolute"), 1);
    let elsewhere = ["symlink sub/n_file 0", "open sub/n_file 66", "open c_real 66"];
    assert_eq!(section("elsewhere")[1..4], elsewhere);
    assert_eq!(section("changed"), ["open n_file 66", "open x_changes 66", "open n_file 66"]);
    assert!(section("link").contains(&"open c_linked 66"), "{:?}", section("link"));
    let directories = section("directories");
    let asked = |what: &str| directories.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((asked("lookup"), asked("rmdir"), asked("note")), (4, 2, 1), "{directories:?}");
}
