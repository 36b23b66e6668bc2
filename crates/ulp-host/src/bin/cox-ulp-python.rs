//! `cox-ulp-python`: the Python interpreter as a position-independent program. Debian's python3 is linked to fixed addresses, which only one program in an
//! address space can have, but its library is not. `cox ulp` starts this program in its place, with the same arguments.
//!
//! It has no start-up code of Rust's, so that the interpreter finds signals as they were.

#![no_main]

use std::env::split_paths;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Exit code of shells for a program that was not found.
const NOT_FOUND: c_int = 127;

/// The function of Python's library that does all that the program does.
type Main = unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int;

/// # Safety
/// Called by the C library's start-up code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, words: *mut *mut c_char) -> c_int {
    // SAFETY: the start-up code passes the arguments, which stay. Without any, the first pointer is null.
    let main = unsafe {
        match words.read() {
            first if first.is_null() => Err("no name of an interpreter".to_owned()),
            first => library(OsStr::from_bytes(CStr::from_ptr(first).to_bytes())).and_then(|name| function(&name)),
        }
    };
    match main {
        // SAFETY: the arguments are the start-up code's.
        Ok(main) => unsafe { main(count, words) },
        Err(why) => {
            eprintln!("cox: no Python: {why}");
            NOT_FOUND
        }
    }
}

/// Returns the library of an interpreter, which is found as a shell would find it: `python3` may be `python3.11`, which has `libpython3.11.so.1.0`. One that is
/// installed with the interpreter comes first.
fn library(name: &OsStr) -> Result<CString, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files: Vec<PathBuf> = match name.as_bytes().contains(&b'/') {
        true => vec![Path::new(name).to_owned()],
        false => split_paths(&path).map(|folder| folder.join(name)).collect(),
    };
    let is_executable = |file: &&PathBuf| {
        let path = CString::new(file.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the path is valid.
        file.is_file() && unsafe { libc::access(path.as_ptr(), libc::X_OK) } == 0
    };
    let file = files.iter().find(is_executable).and_then(|file| file.canonicalize().ok());
    let file = file.ok_or_else(|| format!("{} was not found", name.display()))?;
    let name = format!("lib{}.so.1.0", file.file_name().unwrap_or_default().display());
    let with_it = file.parent().map(|folder| folder.join("../lib").join(&name)).filter(|library| library.exists());
    let library = with_it.map_or(name, |library| library.display().to_string());
    CString::new(library).map_err(|_| format!("{} is no interpreter", file.display()))
}

/// Returns the function in the library. Modules in other libraries use the names of this one.
fn function(library: &CStr) -> Result<Main, String> {
    // SAFETY: the names are valid. The function has this type in all versions of Python from 3.8 on.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        if handle.is_null() {
            return Err(CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned());
        }
        let main = libc::dlsym(handle, c"Py_BytesMain".as_ptr());
        if main.is_null() {
            return Err(CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned());
        }
        Ok(std::mem::transmute::<*mut libc::c_void, Main>(main))
    }
}
