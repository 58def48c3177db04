//! `scr exec` on the same nodes.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::Nodes;
use crate::{code, err, out};

/// This node has what node `a` has; the others are reached as ever.
pub fn with_own_part(nodes: &Nodes) -> String {
    let own = nodes.cluster.node("a").join(nodes.cluster.base().strip_prefix("/").unwrap());
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(own.join(".")).arg(nodes.cluster.base());
    assert!(copy.status().unwrap().success());
    scr_core::system::hostname()
}

impl Nodes {
    pub fn exec(&self, list: &str, words: &[&str]) -> Output {
        let mut command = self.command(&[&["exec"], words].concat());
        command.env("SCR_NODELIST", list).stdin(Stdio::null()).output().unwrap()
    }

    fn first_of(&self, id: u64, rank: usize) -> Vec<u8> {
        self.content(id, rank)[&format!("ckpt/{id}/part_0/rank_{rank}")].clone()
    }
}

#[test]
fn a_command_sees_cached_files_under_their_names() {
    let nodes = Nodes::new(&["XOR", "SINGLE"]);
    let list = format!("{},b,c", with_own_part(&nodes));
    let prefix = nodes.cluster.prefix();
    fs::create_dir_all(prefix.join("ckpt/1")).unwrap();
    fs::write(prefix.join("ckpt/1/notes"), "mine").unwrap();
    let run = |words: &[&str]| nodes.exec(&list, words);
    let script =
        "cd ckpt/1 && cat part_0/rank_0 part_0/rank_3 notes && [ ! -e ../../.scr/catalog.scr ]";
    let seen = run(&["--", "sh", "-c", script]);
    assert_eq!(code(&seen), Some(0), "{}", err(&seen));
    assert_eq!(err(&seen), "", "no namespace could be made here");
    let all = [nodes.first_of(1, 0), nodes.first_of(1, 3), b"mine".to_vec()];
    assert!(seen.stdout == all.concat());
    let view = run(&["sh", "-c", "echo $SCR_VIEW; exit 7"]);
    assert_eq!((code(&view), out(&view)), (Some(7), format!("{}\n", prefix.display())));
    let written = run(&["sh", "-c", "echo x > ckpt/1/part_0/rank_0; echo x > new"]);
    assert!(code(&written) != Some(0), "{}", err(&written));
    assert_eq!(err(&written).matches("Read-only").count(), 2, "{}", err(&written));
    let one = run(&["--dataset", "2", "--", "sh", "-c", "ls ckpt"]);
    assert_eq!(out(&one), "1\n2\n");
    let here = run(&["--here", "--", "sh", "-c", "ls ckpt/2/part_0"]);
    assert_eq!(out(&here), "rank_0\n", "{}", err(&here));
    assert_eq!(code(&run(&["--", "/no/such/command"])), Some(127));
    assert_eq!(code(&run(&["--", "/etc/passwd"])), Some(126));
    assert_eq!(code(&run(&["--dataset", "9", "--", "true"])), Some(125));
    assert_eq!(code(&run(&[])), Some(2));
    // What was seen is not there.
    assert_eq!(fs::read_dir(prefix.join("ckpt/1")).unwrap().count(), 1);
    nodes.assert_clean();
}

#[test]
fn a_static_program_sees_them_too() {
    let nodes = Nodes::new(&["SINGLE"]);
    let list = format!("{},b,c", with_own_part(&nodes));
    let program = nodes.cluster.base().with_file_name("static");
    let source = "#include <stdio.h>\nint main(int n, char **v) { FILE *f = fopen(v[1], \"r\"); \
                  int c; while (f && (c = getc(f)) != EOF) putchar(c); return f == NULL; }\n";
    fs::write(program.with_extension("c"), source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-static", "-w", "-o"]).arg(&program).arg(program.with_extension("c"));
    assert!(cc.status().unwrap().success());
    for rank in [0, 3] {
        let name = format!("ckpt/1/part_0/rank_{rank}");
        let read = nodes.exec(&list, &["--", program.to_str().unwrap(), &name]);
        assert_eq!(code(&read), Some(0), "{}", err(&read));
        assert!(read.stdout == nodes.first_of(1, rank));
    }
}

#[test]
fn where_nobody_can_make_a_namespace_links_stand_in_for_the_prefix() {
    let nodes = Nodes::new(&["SINGLE"]);
    let host = with_own_part(&nodes);
    let exec = nodes.command(&["exec", "--", "sh", "-c", "cat $SCR_VIEW/ckpt/1/part_0/rank_0"]);
    // A user whom his namespace does not know can make no other.
    let mut plain = Command::new("unshare");
    plain.arg("-U").arg(exec.get_program()).args(exec.get_args());
    plain.current_dir(nodes.cluster.prefix());
    for (name, value) in exec.get_envs() {
        match value {
            Some(value) => plain.env(name, value),
            None => plain.env_remove(name),
        };
    }
    let linked = plain.env("SCR_NODELIST", &host).output().unwrap();
    assert_eq!(code(&linked), Some(0), "{}", err(&linked));
    assert!(err(&linked).contains("SCR_VIEW names"), "{}", err(&linked));
    assert!(linked.stdout == nodes.first_of(1, 0));
}
