//! Directory listings with names added and hidden by the engine.

use std::fs;

use crate::programs::succeeded;
use crate::shim::{Place, program};

#[test]
fn listings_are_merged() {
    let place = Place::new();
    for name in ["listed/there", "listed/hidden", "listed/plain"] {
        let path = place.prefix().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::create_dir(place.prefix().join("other")).unwrap();
    for name in ["listed+c_one", "listed+c_two"] {
        fs::write(place.cache().join(name), "").unwrap();
    }
    succeeded(&place.preloaded(program("listings")).output().unwrap());
}
