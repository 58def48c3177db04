//! Everyday tools behave under the shim as without it.

use std::process::Output;

use crate::programs::text;
use crate::shim::{Place, library};

fn both(script: &str) {
    let run = |preload: bool| -> Output {
        // Each run in a place of its own, so that both start from the same state.
        let place = Place::new();
        let mut command = place.command("/bin/bash");
        command.args(["-c", script]).env("HOME", place.cache()).env("LC_ALL", "C");
        if preload {
            command.env("LD_PRELOAD", library());
        }
        command.output().unwrap()
    };
    let (with, without) = (run(true), run(false));
    assert_eq!(text(&with.stderr), text(&without.stderr), "{script}");
    assert_eq!(text(&with.stdout), text(&without.stdout), "{script}");
    assert_eq!(with.status.code(), without.status.code(), "{script}");
    assert!(!text(&with.stdout).is_empty(), "the script says something: {script}");
}

#[test]
fn shell_and_files() {
    both("ls -ld / /etc/passwd /nowhere; cat /nowhere; echo done; exit 3");
    both(
        "mkdir -p a/b; echo x > a/b/c; cp -r a d; mv d/b/c d/e; ln -s e d/l; find . | sort; \
         rm -r a; ls -R",
    );
    both(
        "echo hi | tr h H | (read x; echo $x); for i in 1 2 3; do (echo $i) & wait; done; \
         tar cf - /etc/hostname 2>/dev/null | tar tf -",
    );
}

#[test]
fn python() {
    both(
        "python3 -c 'import os, subprocess, json, multiprocessing\n\
         open(\"c_x\", \"w\").write(\"1\")\n\
         print(os.listdir(\".\"), os.stat(\"c_x\").st_size)\n\
         print(subprocess.check_output([\"echo\", \"hi\"]))\n\
         p = multiprocessing.Process(target=print, args=(\"child\",), daemon=True)\n\
         p.start(); p.join()'",
    );
}

#[test]
fn compiler_and_git() {
    both("printf 'int main(void){return 7;}' > t.c; gcc -O1 t.c -o t; ./t; echo $?; gcc --version");
    both(
        "git init -q . 2>&1; git config user.email x@y; git config user.name n; echo 1 > f; \
         git add f; git commit -q -m m; echo 2 >> f; git status --short; git log --format=%s; \
         git clone -q . ../cache/clone; ls ../cache/clone",
    );
}
