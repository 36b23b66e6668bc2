//! Python for `cox ulp`. Many distributions link python3 to fixed addresses, which only one program in an address space can have, but have its library, too,
//! which is position-independent. A launcher of cox's does with the library what the program does.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use ulp::program::image::{Executable, LoadError};
use ulp::program::layout::Unfit;

/// File name of the launcher. It is in the folder of the host.
const LAUNCHER: &str = "cox-ulp-python";

/// Returns what runs instead of a program: the launcher in the folder of `host`, if the program is a Python interpreter that is linked to fixed addresses and
/// its library is installed.
pub fn instead_of(program: &Path, host: &Path) -> Option<PathBuf> {
    let file = program.canonicalize().ok()?;
    let name = file.file_name()?.to_str()?;
    let version = name.strip_prefix("python3.")?;
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    let launcher = host.with_file_name(LAUNCHER);
    let own = file.parent()?.join("../lib");
    let usual = ["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from);
    let debian = PathBuf::from(format!("/usr/lib/{ARCH}-linux-gnu"));
    let library = format!("lib{name}.so.1.0");
    let has_library = [own, debian].iter().chain(&usual).any(|folder| folder.join(&library).exists());
    (is_version && is_fixed(&file) && has_library && launcher.exists()).then_some(launcher)
}

/// Whether a file is a program that is linked to fixed addresses.
fn is_fixed(file: &Path) -> bool {
    matches!(Executable::open(file), Err(LoadError::Unfit { why: Unfit::Fixed, .. }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_interpreters_that_cannot_run_themselves_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "lib"] {
            fs::create_dir(at(name)).unwrap();
        }
        // An ELF header: of 64 bits, little-endian, version 1; its type and its processor.
        let program = |kind: u8| {
            let [low, high] = arch::ELF_MACHINE.to_le_bytes();
            [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9], &[kind, 0, low, high], &[0; 44]].concat()
        };
        for (name, kind) in [("python3.77", 2), ("python3.78", 3), ("python3.79", 2), ("perl", 2)] {
            fs::write(at("bin").join(name), program(kind)).unwrap();
        }
        for name in ["python3.77", "python3.78", "perl"] {
            fs::write(at("lib").join(format!("lib{name}.so.1.0")), "").unwrap();
        }
        symlink("python3.77", at("bin/python3")).unwrap();
        let instead = |name: &str| instead_of(&at("bin").join(name), &at("cox-ulp-host"));
        assert_eq!(instead("python3"), None, "no launcher");
        fs::write(at(LAUNCHER), "").unwrap();
        assert_eq!((instead("python3"), instead("python3.77")), (Some(at(LAUNCHER)), Some(at(LAUNCHER))));
        for name in ["python3.78", "python3.79", "perl", "none"] {
            assert_eq!(instead(name), None, "{name}");
        }
    }
}
