//! Launchers carry the shim and its variables to other nodes. The nodes are played by an agent that
//! starts from an empty environment, as ssh does, and a daemon that writes down what reached it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::{script, succeeded};
use crate::shim::{Place, library};

const PATTERN: &str = "ckpt/{id}/r_{rank}.dat,  it's $HOME \\ \"two\"";

/// An agent, and daemons called `orted` and `myorted`, in `bin`.
fn node(place: &Place) -> std::path::PathBuf {
    let bin = place.cache().join("bin");
    fs::create_dir(&bin).unwrap();
    let out = place.cache().join("reached");
    for daemon in ["orted", "myorted"] {
        let dump = format!("#!/bin/bash\necho \"daemon=$0 $1\" > {0}\nenv >> {0}\n", out.display());
        script(&bin.join(daemon), &dump);
    }
    // Ends in failure, so that mpirun does not wait for the daemon to call back.
    let clean = format!("env -i PATH={}:/usr/bin:/bin sh -c \"$*\"", bin.display());
    script(&bin.join("agent"), &format!("#!/bin/bash\nshift\n{clean}\nexit 1\n"));
    bin
}

/// Open MPI's launcher, for a program on another node.
fn mpirun(place: &Place, bin: &Path) -> Command {
    let mut command = place.command("mpirun.openmpi");
    command
        .args(["--allow-run-as-root", "--host", "nodex", "-n", "1", "--mca", "plm_rsh_agent"])
        .arg(bin.join("agent"))
        .env("SCR_CHECKPOINT_PATTERN", PATTERN)
        .env("SCR_CONF_FILE", "conf/scr.conf");
    command
}

/// What reached the daemon on the other node.
fn reached(place: &Place, change: impl FnOnce(&mut Command, &Path)) -> String {
    let bin = node(place);
    let mut command = mpirun(place, &bin);
    command.env("LD_PRELOAD", library());
    change(&mut command, &bin);
    let output = command.arg("/bin/true").output().unwrap();
    fs::read_to_string(place.cache().join("reached")).unwrap_or_else(|_| {
        panic!("nothing reached the node: {}", crate::programs::text(&output.stderr))
    })
}

#[track_caller]
fn assert_complete(place: &Place, reached: &str) {
    let conf = place.prefix().canonicalize().unwrap().join("conf/scr.conf");
    for line in [
        format!("LD_PRELOAD={}", library().display()),
        format!("SCR_CHECKPOINT_PATTERN={PATTERN}"),
        format!("SCR_CONF_FILE={}", conf.display()),
    ] {
        assert!(reached.lines().any(|found| found == line), "{line} is not in\n{reached}");
    }
    let nonce = reached.lines().find_map(|line| line.strip_prefix("SCR_LAUNCH_NONCE="));
    assert_eq!(nonce.map(str::len), Some(32), "{reached}");
}

#[test]
fn a_plain_mpirun() {
    let place = Place::new();
    let reached = reached(&place, |_, _| {});
    assert_complete(&place, &reached);
    assert!(reached.contains("/orted -mca"), "{reached}");
}

#[test]
fn with_variables_of_the_users_own() {
    let place = Place::new();
    let reached = reached(&place, |command, _| {
        command.args(["-x", "FOO", "-x", "BAR=2"]).env("FOO", "1");
    });
    assert_complete(&place, &reached);
}

#[test]
fn with_an_environment_list() {
    let place = Place::new();
    let reached = reached(&place, |command, _| {
        command.env("FOO", "1").env("OMPI_MCA_mca_base_env_list", "FOO");
    });
    assert_complete(&place, &reached);
}

#[test]
fn with_a_launch_agent_in_the_environment() {
    let place = Place::new();
    let reached = reached(&place, |command, bin| {
        let agent = format!("{}/myorted --own", bin.display());
        command.env("OMPI_MCA_orte_launch_agent", agent);
    });
    assert_complete(&place, &reached);
    assert!(reached.contains("/myorted --own"), "{reached}");
}

#[test]
fn with_a_launch_agent_on_the_command_line() {
    for option in [&["--mca", "orte_launch_agent"][..], &["--launch-agent"]] {
        let place = Place::new();
        let reached = reached(&place, |command, bin| {
            command.args(option).arg(format!("{}/myorted --own", bin.display()));
        });
        assert_complete(&place, &reached);
        assert!(reached.contains("/myorted --own"), "{reached}");
    }
}

#[test]
fn with_a_launch_agent_in_a_file() {
    for of in ["user", "system", "tune", "list", "old name", "both names"] {
        let place = Place::new();
        let reached = reached(&place, |command, bin| {
            let agent = format!("{}/myorted", bin.display());
            let file = |path: &str, text: &str| {
                let path = bin.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                path
            };
            let line = format!("# mine\norte_launch_agent = {agent} --own\n");
            match of {
                "user" => {
                    file(".openmpi/mca-params.conf", &line);
                    file("openmpi-mca-params.conf", "orte_launch_agent = false\n");
                    command.env("HOME", bin).env("OPAL_SYSCONFDIR", bin);
                }
                "system" => {
                    file("openmpi-mca-params.conf", &line);
                    command.env("OPAL_SYSCONFDIR", bin);
                }
                "tune" => {
                    let text = format!("-x FOO=1 -mca orte_launch_agent {agent}\n");
                    command.arg("--tune").arg(file("tune", &text));
                }
                "list" => {
                    command.env("OMPI_MCA_mca_base_param_files", file("list", &line));
                }
                "old name" => {
                    command.env("OMPI_MCA_mca_param_files", file("list", &line));
                }
                _ => {
                    let other = file("other", "orte_launch_agent = false\n");
                    command.env("OMPI_MCA_mca_base_param_files", file("list", &line));
                    command.arg("--mca").arg("mca_param_files").arg(other);
                }
            }
        });
        assert_complete(&place, &reached);
        let daemon = if of == "tune" { "/myorted -mca" } else { "/myorted --own" };
        assert!(reached.contains(daemon), "{of}: {reached}");
    }
}

#[test]
fn no_file_is_read_if_the_user_wants_none() {
    let place = Place::new();
    let reached = reached(&place, |command, bin| {
        let tune = bin.join("tune");
        fs::write(&tune, format!("-mca orte_launch_agent {}/myorted\n", bin.display())).unwrap();
        fs::copy(&tune, bin.join("openmpi-mca-params-override.conf")).unwrap();
        command.env("OPAL_SYSCONFDIR", bin).arg("--tune").arg(tune);
        command.args(["--mca", "mca_param_files", "none"]);
    });
    assert_complete(&place, &reached);
    assert!(reached.contains("/orted -mca"), "{reached}");
}

#[test]
fn an_agent_that_nobody_may_change_is_left_alone() {
    let place = Place::new();
    let run = |preload: &Path| {
        let bin = node(&place);
        let file = bin.join("openmpi-mca-params-override.conf");
        fs::write(file, format!("orte_launch_agent = {}/myorted\n", bin.display())).unwrap();
        let mut command = mpirun(&place, &bin);
        command.env("OPAL_SYSCONFDIR", &bin).env("LD_PRELOAD", preload);
        let output = command.arg("/bin/true").output().unwrap();
        let reached = fs::read_to_string(place.cache().join("reached")).unwrap();
        assert!(reached.contains("/myorted -mca"), "{reached}");
        fs::remove_dir_all(place.cache()).unwrap();
        fs::create_dir(place.cache()).unwrap();
        (output.status.code(), crate::programs::text(&output.stderr))
    };
    let (plain, shimmed) = (run(Path::new("")), run(&library()));
    assert_eq!(plain, shimmed);
}

#[test]
fn a_list_of_variables_in_a_file_keeps_the_shim() {
    for option in ["--tune", "--mca mca_base_param_files"] {
        let place = Place::new();
        let mut command = place.command("mpirun.openmpi");
        let file = place.cache().join("list");
        let list = "mca_base_env_list";
        let text = match option {
            "--tune" => format!("-mca {list} \"LD_PRELOAD=libm.so.6;FOO=3\"\n"),
            _ => format!("{list} = LD_PRELOAD=libm.so.6;FOO=3\n"),
        };
        fs::write(&file, text).unwrap();
        command.env("LD_PRELOAD", library()).args(["--allow-run-as-root", "-n", "1"]);
        command.args(option.split(' ')).arg(file).args(["sh", "-c", "echo $LD_PRELOAD $FOO"]);
        let want = format!("{}:libm.so.6 3\n", library().display());
        assert_eq!(succeeded(&command.output().unwrap()), want, "{option}");
    }
}

#[test]
fn by_its_bare_name() {
    let place = Place::new();
    let reached = reached(&place, |command, _| {
        command.env("LD_PRELOAD", "libscr_preload.so");
        command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    });
    assert_complete(&place, &reached);
}

/// What reaches a rank of hydra; its agent makes it treat this machine as another node.
fn reached_by_hydra(change: impl FnOnce(&mut Command, &Path)) {
    let place = Place::new();
    let agent = node(&place).join("agent");
    script(&agent, "#!/bin/bash\nshift\nexec env -i PATH=/usr/bin:/bin sh -c \"$*\"\n");
    let mut command = place.command("mpirun.mpich");
    command.args(["-launcher", "rsh", "-launcher-exec"]).arg(agent).args(["-host", "127.0.0.2"]);
    command.env("SCR_CHECKPOINT_PATTERN", PATTERN).env("SCR_CONF_FILE", "conf/scr.conf");
    command.env("LD_PRELOAD", library());
    change(&mut command, &place.cache());
    assert_complete(&place, &succeeded(&command.output().unwrap()));
}

#[test]
fn hydra_with_a_limited_environment() {
    for limit in
        [&[][..], &["-genvnone"], &["--genvlist=HOME"], &["-envnone"], &["-envlist", "FOO"]]
    {
        reached_by_hydra(|command, _| {
            command.args(limit).args(["-n", "1", "/usr/bin/env"]);
        });
    }
    for limit in ["none", "list:HOME"] {
        reached_by_hydra(|command, _| {
            command.env("HYDRA_ENV", limit).args(["-n", "1", "/usr/bin/env"]);
        });
    }
    reached_by_hydra(|command, directory| {
        let file = directory.join("config");
        fs::write(&file, "-genvnone -n 1 /usr/bin/env\n").unwrap();
        command.arg("-configfile").arg(file);
    });
}

#[test]
fn a_launch_has_one_number_and_each_launch_another() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let mut command = place.preloaded("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe"]).args(arguments);
        succeeded(&command.output().unwrap())
    };
    let out = run(&["-n", "2", "sh", "-c", "echo $SCR_LAUNCH_NONCE"]);
    let numbers: Vec<&str> = out.lines().collect();
    assert_eq!((numbers.len(), numbers[0]), (2, numbers[1]));
    let again = run(&["-n", "1", "sh", "-c", "echo $SCR_LAUNCH_NONCE"]);
    assert_ne!(again.trim(), numbers[0]);
    let off = place
        .preloaded("mpirun.openmpi")
        .env("SCR_ENABLE", "0")
        .args(["--allow-run-as-root", "-n", "1", "sh", "-c", "echo x$SCR_LAUNCH_NONCE"])
        .output()
        .unwrap();
    assert_eq!(succeeded(&off), "x\n");
}
