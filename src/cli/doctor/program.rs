//! Whether the shim can be loaded into the program, and whether its MPI is the launcher's. The
//! program is looked at, not run.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use elf::ElfStream;
use elf::abi::{PT_DYNAMIC, PT_INTERP};
use elf::endian::AnyEndian;
use elf::file::Class;
use scr_core::operations::doctor::Finding;
use scr_core::operations::run::{Launcher, LauncherLine, quoted};

use crate::base::job::{can_run, find_command};

/// Bits by which a program runs with other rights; the loader ignores `LD_PRELOAD` then.
const SET_ID: u32 = 0o6000;
/// Programs that start or load others, with or without a version: they need no MPI of their own.
const INTERPRETERS: [&str; 8] = ["python", "julia", "perl", "ruby", "bash", "sh", "env", "Rscript"];
const LAUNCHERS: [&str; 8] =
    ["mpirun", "mpiexec", "orterun", "prterun", "srun", "flux", "aprun", "jsrun"];

/// A family of MPIs, whose launchers start one another's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mpi {
    OpenMpi,
    Mpich,
}

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        }
    }

    /// An MPI is known by the name of its library, and where the loader finds that.
    fn of(library: &str, path: &str) -> Option<Mpi> {
        let is_mpich =
            |text: &str| ["mpich", "intel", "mvapich"].iter().any(|it| text.contains(it));
        if library.starts_with("libmpich") || library.starts_with("libmpi_cray") {
            return Some(Mpi::Mpich);
        }
        let version = library.strip_prefix("libmpi.so")?;
        // MPICH and those that are compatible with it have version 12.
        Some(if version == ".12" || is_mpich(path) { Mpi::Mpich } else { Mpi::OpenMpi })
    }
}

pub struct Command {
    words: Vec<String>,
    /// `scr run` starts it.
    by_scr_run: bool,
}

#[derive(Default)]
pub struct Looked {
    pub findings: Vec<Finding>,
    mpi: Option<Mpi>,
    /// The program calls SCR by itself.
    pub calls: bool,
}

impl Command {
    /// Takes off an `scr run` in front.
    pub fn new(words: &[String]) -> Command {
        let is_scr = |word: &String| matches!(name_of(word), "scr" | "scr_run");
        let by_scr_run = words.first().is_some_and(is_scr);
        let begin = match words.iter().position(|word| word == "--") {
            Some(at) if by_scr_run => at + 1,
            _ => 0,
        };
        Command { words: words[begin..].to_vec(), by_scr_run }
    }

    pub fn is_given(&self) -> bool {
        !self.words.is_empty()
    }

    /// Tells whether the command line sees to it that the ranks have the shim.
    pub fn brings_shim(&self) -> bool {
        self.by_scr_run || self.words.iter().any(|word| word.contains("libscr_preload.so"))
    }

    /// Writes the line as a shell has to see it; an example if there is none.
    pub fn line(&self) -> String {
        match self.words.is_empty() {
            true => "mpirun -n 4 ./app".to_owned(),
            false => self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        }
    }

    pub fn look(&self) -> Looked {
        let Some(first) = self.words.first() else { return Looked::default() };
        let is_launcher = LAUNCHERS.iter().any(|name| {
            let rest = name_of(first).strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let launcher = is_launcher.then(|| Launcher::of(first, || version_of(first)));
        let program = match launcher {
            Some(launcher) => {
                let line = LauncherLine::new(launcher, &self.words, can_run);
                line.program().first().cloned()
            }
            None => Some(first.clone()),
        };
        let path = program.as_deref().and_then(find_command);
        let Some(path) = path else {
            let what = match &program {
                Some(word) => format!("there is no program {word} that can be run"),
                None => format!("no word of \"{}\" is a program that can be run", self.line()),
            };
            let word = program.unwrap_or_else(|| self.words.last().cloned().unwrap_or_default());
            let cure = format!("ls -l {}", quoted(&word));
            let findings = vec![Finding::fault("program-missing", what, cure)];
            return Looked { findings, ..Looked::default() };
        };
        let mut looked = look(&path);
        if let (Some(launcher), Some(mpi)) = (launcher, looked.mpi) {
            looked.findings.extend(mismatch(first, launcher, mpi, &path));
        }
        looked
    }
}

fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or_default()
}

fn version_of(launcher: &str) -> String {
    let output =
        std::process::Command::new(launcher).arg("--version").stdin(Stdio::null()).output();
    output.map(|told| String::from_utf8_lossy(&told.stdout).into_owned()).unwrap_or_default()
}

/// A launcher of one MPI starts a program of another as so many worlds of one rank.
fn mismatch(word: &str, launcher: Launcher, mpi: Mpi, path: &Path) -> Option<Finding> {
    let of = match launcher {
        Launcher::OpenMpi => Mpi::OpenMpi,
        Launcher::Hydra => Mpi::Mpich,
        Launcher::Srun | Launcher::Flux | Launcher::Pals | Launcher::Other => return None,
    };
    (of != mpi).then(|| {
        let what = format!(
            "{word} is of {}, {} is linked with {}: each process would be a world of one rank",
            of.name(),
            path.display(),
            mpi.name()
        );
        let own = if mpi == Mpi::OpenMpi { "openmpi" } else { "mpich" };
        let cure = format!("mpirun.{own} --version; type -a mpirun");
        Finding::fault("mpi-mismatch", what, cure)
    })
}

fn look(path: &Path) -> Looked {
    let (shown, word) = (path.display(), quoted(&path.display().to_string()));
    let mut looked = Looked::default();
    let mut fault =
        |id, what: String, cure: String| looked.findings.push(Finding::fault(id, what, cure));
    let Ok(file) = File::open(path) else { return looked };
    if let Ok(found) = file.metadata()
        && found.permissions().mode() & SET_ID != 0
    {
        let what =
            format!("{shown} runs with other rights (setuid): the loader ignores LD_PRELOAD");
        fault("program-setuid", what, format!("chmod ug-s {word}"));
    }
    let Some(Binary { interpreter, is_static, is_32_bit }) = Binary::read(&file) else {
        // A script: what it starts cannot be seen from here.
        return looked;
    };
    if is_static {
        let what = format!(
            "{shown} is statically linked: the shim cannot be loaded into it. Link it with shared \
             libraries, or have it call SCR"
        );
        fault("program-static", what, format!("ldd {word}"));
        return looked;
    }
    if is_32_bit && cfg!(target_pointer_width = "64") {
        let what = format!("{shown} has 32 bits, the shim has 64: it cannot be loaded into it");
        fault("program-32-bit", what, format!("file {word}"));
        return looked;
    }
    let Some(libraries) = interpreter.and_then(|loader| libraries(&loader, path)) else {
        return looked;
    };
    let missing: Vec<&str> =
        libraries.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| &**name).collect();
    if !missing.is_empty() {
        let what = format!("{shown} needs {}, which the loader does not find", missing.join(", "));
        fault("library-missing", what, format!("ldd {word} | grep 'not found'"));
    }
    let mpi = libraries
        .iter()
        .find_map(|(name, found)| Mpi::of(name, found.as_deref().unwrap_or_default()));
    if mpi.is_none() && !is_interpreter(path) {
        looked.findings.push(without_mpi(path, &libraries));
    }
    looked.mpi = mpi;
    looked.calls = libraries.iter().any(|(name, _)| name.starts_with("libscr.so"));
    looked
}

/// The finding on a program that is not linked with an MPI: it may load one.
fn without_mpi(path: &Path, libraries: &[(String, Option<String>)]) -> Finding {
    let (id, shown) = ("program-without-mpi", path.display());
    let cure = format!("ldd {} | grep -i mpi", quoted(&path.display().to_string()));
    let what = format!("{shown} is not linked with a shared MPI library");
    // libc's own parts load what names of hosts and character sets need.
    let others = libraries.iter().filter(|(name, _)| !name.starts_with("libc.so"));
    let mut files = others.filter_map(|(_, found)| found.as_deref()).map(Path::new);
    if loads_libraries(path) || files.any(loads_libraries) {
        let what = format!(
            "{what}. Where it loads one while it runs, and takes MPI_Init from it, SCR serves it; \
             else SCR does nothing in it"
        );
        return Finding::advice(id, what, cure);
    }
    let what = format!("{what}: SCR does nothing in a program that does not call MPI_Init");
    Finding::fault(id, what, cure)
}

fn loads_libraries(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(mut stream) = ElfStream::<AnyEndian, _>::open_stream(file) else { return false };
    let Ok(Some((symbols, names))) = stream.dynamic_symbol_table() else { return false };
    let name = |symbol: elf::symbol::Symbol| names.get(symbol.st_name as usize);
    symbols
        .iter()
        .any(|symbol| symbol.is_undefined() && name(symbol).is_ok_and(|it| it == "dlopen"))
}

fn is_interpreter(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.iter().any(|known| name.strip_prefix(known).is_some_and(is_version))
}

struct Binary {
    /// The loader that it asks for.
    interpreter: Option<String>,
    is_static: bool,
    is_32_bit: bool,
}

impl Binary {
    /// `None` if it is no ELF file.
    fn read(mut file: &File) -> Option<Binary> {
        let mut magic = [0; 4];
        file.read_exact(&mut magic).ok()?;
        let mut stream = ElfStream::<AnyEndian, _>::open_stream(file).ok()?;
        let of = |kind: u32| move |header: &&elf::segment::ProgramHeader| header.p_type == kind;
        let is_static = stream.segments().iter().find(of(PT_DYNAMIC)).is_none()
            || stream.segments().iter().find(of(PT_INTERP)).is_none();
        let is_32_bit = stream.ehdr.class == Class::ELF32;
        let header = stream.segments().iter().find(of(PT_INTERP)).copied();
        let name = header.and_then(|header| stream.segment_data(&header).ok());
        let interpreter = name
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .map(|text| text.trim_end_matches('\0').to_owned());
        Some(Binary { interpreter, is_static, is_32_bit })
    }
}

/// Names of all shared libraries, and where the loader finds them: it lists them without running
/// the program. `None` if this loader cannot.
fn libraries(loader: &str, program: &Path) -> Option<Vec<(String, Option<String>)>> {
    let output = std::process::Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries: Vec<_> = text.lines().filter_map(library).collect();
    (!libraries.is_empty()).then_some(libraries)
}

/// Takes a line such as `libm.so.6 => /lib/libm.so.6 (0x00007f)` apart.
fn library(line: &str) -> Option<(String, Option<String>)> {
    let (name, place) = line.trim().split_once(" => ")?;
    let place = place.rsplit_once(" (0x").map_or(place, |(place, _)| place);
    Some((name.to_owned(), Some(place.to_owned()).filter(|place| place != "not found")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader() {
        let found = |name: &str, place: Option<&str>| Some((name.into(), place.map(str::to_owned)));
        for (line, want) in [
            (
                "\tlibm.so.6 => /lib/libm.so.6 (0x00007f)",
                found("libm.so.6", Some("/lib/libm.so.6")),
            ),
            ("\tlibx.so => not found", found("libx.so", None)),
            ("\tlinux-vdso.so.1 (0x00007ffd)", None),
            ("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)", None),
        ] {
            assert_eq!(library(line), want, "{line}");
        }
    }

    #[test]
    fn an_mpi_is_known_by_its_library() {
        for (library, path, want) in [
            ("libmpi.so.40", "/usr/lib/libmpi.so.40", Some(Mpi::OpenMpi)),
            ("libmpi.so.12", "/opt/intel/libmpi.so.12", Some(Mpi::Mpich)),
            ("libmpich.so.12", "/usr/lib/libmpich.so.12", Some(Mpi::Mpich)),
            ("libmpi_cray.so.12", "", Some(Mpi::Mpich)),
            ("libmpi_mpifh.so.40", "", None),
            ("libm.so.6", "", None),
        ] {
            assert_eq!(Mpi::of(library, path), want, "{library}");
        }
    }

    #[test]
    fn a_command_line_is_taken_apart() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let by_run = Command::new(&words("scr run --nodes 2 -- mpirun -n 4 ./app"));
        assert!(by_run.brings_shim() && by_run.line() == "mpirun -n 4 ./app");
        let plain = Command::new(&words("mpirun -n 4 ./app"));
        assert!(!plain.brings_shim() && plain.is_given());
        assert!(
            Command::new(&words("mpirun -x LD_PRELOAD=/l/libscr_preload.so ./app")).brings_shim()
        );
        assert!(!Command::new(&[]).is_given());
    }

    #[test]
    fn interpreters_are_known_with_their_versions() {
        for (path, want) in [
            ("/usr/bin/python3.11", true),
            ("/bin/sh", true),
            ("/bin/shallow_water", false),
            ("./envelope", false),
        ] {
            assert_eq!(is_interpreter(Path::new(path)), want, "{path}");
        }
    }

    #[test]
    fn this_test_is_a_program_without_mpi() {
        let looked = look(&std::env::current_exe().expect("this program"));
        let ids: Vec<_> = looked.findings.iter().map(|one| one.id).collect();
        assert_eq!(ids, ["program-without-mpi"]);
    }
}
