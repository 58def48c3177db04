//! House rules that a compiler does not know. Each checker has tests that show that it can fail.

mod circles;
mod documents;
mod forgotten;
mod links;
mod measures;
mod messages;
mod placement;
mod rooms;
mod size;
mod source;
mod verbs;
mod words;

use source::Source;

fn nothing(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn each(check: impl Fn(&Source) -> Vec<String>) {
    let sources = source::all();
    assert!(sources.len() > 100, "only {} files found", sources.len());
    nothing(&sources.iter().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn files_are_short() {
    each(size::files);
}

#[test]
fn functions_are_short() {
    each(size::functions);
}

#[test]
fn lines_fit_and_are_ascii() {
    each(size::lines);
}

#[test]
fn layers_point_down() {
    each(placement::layers);
}

#[test]
fn files_of_the_session_are_in_rooms() {
    nothing(&rooms::sizes(&source::all()));
}

#[test]
fn figures_of_the_structure_only_fall() {
    nothing(&measures::complaints(&source::all()));
}

#[test]
fn unsafe_code_has_its_places_and_notes() {
    each(placement::unsafe_code);
}

#[test]
fn crates_are_at_home() {
    each(placement::crates);
    nothing(&placement::empty_homes(&source::all()));
}

#[test]
fn nothing_is_left_over() {
    each(words::left_over);
}

#[test]
fn comments_say_what_functions_do() {
    each(verbs::comments);
}

#[test]
fn no_path_of_this_machine() {
    each(words::machine_paths);
}

#[test]
fn no_file_is_forgotten() {
    let sources = source::all();
    nothing(&forgotten::modules(&sources));
    nothing(&forgotten::programs(&sources));
}

#[test]
fn documents_tell_what_is() {
    each(documents::readme);
    nothing(&documents::tests_named(&source::all()));
}

#[test]
fn what_is_said_has_a_message_that_can_be_explained() {
    nothing(&messages::unsaid(&source::all()));
    each(messages::past_the_table);
}
