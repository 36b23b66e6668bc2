//! Programs from Debian and programs of all usual compilers, sixteen at once: output and exit code are those of the program alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fs;
use std::process::Command;

use place::{Place, lines};
use testkit::skip::{Need, installed};

/// How many at once.
const MANY: usize = 16;

/// Runs a program alone and many times at once. It must print so little that it writes all at once: all copies write to one pipe. `test` is for the message if the program is not there.
#[track_caller]
fn assert_as_alone(place: &Place, test: &str, program: &str, arguments: &[&str]) {
    if !installed(test, Need::Programs, program) {
        return;
    }
    let alone =
        Command::new(program).args(arguments).env("RANK", "alone").current_dir(place.folder()).output().unwrap();
    let own = lines(&alone);
    assert!(!own.is_empty(), "{program} {arguments:?}");
    let mut right: Vec<String> = std::iter::repeat_n(own, MANY).flatten().collect();
    right.sort();
    let (output, ends) = place.run(MANY, program, arguments);
    let all = lines(&output);
    let other = all.iter().zip(&right).find(|(one, right)| one != right);
    assert_eq!((all.len(), other), (right.len(), None), "{program} {arguments:?}");
    assert_eq!(ends, vec![alone.status.code().unwrap(); MANY], "{program} {arguments:?}");
}

/// Compiles a program. Returns its path, or `None` if the compiler is not there.
fn compiled(place: &Place, test: &str, compiler: &[&str], name: &str, source: &str) -> Option<String> {
    if !installed(test, Need::Programs, compiler[0]) {
        return None;
    }
    let (file, program) = (place.folder().join(name), place.folder().join(format!("{name}.out")));
    fs::write(&file, source).unwrap();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-o").arg(&program).arg(&file).current_dir(place.folder());
    // Go keeps what it has compiled at home, which a test may not have.
    command.env("GOCACHE", place.folder().join("cache")).env("GO111MODULE", "off");
    assert!(command.status().unwrap().success(), "{command:?}");
    Some(program.display().to_string())
}

#[test]
fn coreutils() {
    let (place, test) = (Place::new(), "coreutils");
    let numbers: String = (0..300).map(|number| format!("{}\n", number * 7919 % 5003)).collect();
    fs::write(place.folder().join("numbers"), numbers).unwrap();
    let programs: [(&str, &[&str]); 10] = [
        ("sort", &["-n", "numbers"]),
        ("md5sum", &["numbers"]),
        ("sha512sum", &["numbers"]),
        ("wc", &["numbers"]),
        ("od", &["-An", "-tx1", "-N999", "numbers"]),
        ("factor", &["1234567890123456789"]),
        ("seq", &["300"]),
        ("ls", &["-l", "numbers"]),
        ("stat", &["-c", "%s %U", "numbers"]),
        ("test", &["-x", "/no"]),
    ];
    for (program, arguments) in programs.iter().take(9) {
        assert_as_alone(&place, test, program, arguments);
    }
    let (_, ends) = place.run(MANY, programs[9].0, programs[9].1);
    assert_eq!(ends, [1; MANY]);
}

#[test]
fn shells_with_pipes_and_job_control() {
    let (place, test) = (Place::new(), "shells_with_pipes_and_job_control");
    let pipes = "for i in 1 2 3; do (echo $i; sleep 0.01) | cat & done; wait; x=$(seq 99 | tac | head -n 1); echo done $x; exit 9";
    for shell in ["dash", "bash"] {
        assert_as_alone(&place, test, shell, &["-c", pipes]);
    }
    let jobs = "exec 2>/dev/null; set -m; sleep 0.05 & wait %1; echo $?; (exit 4) & wait $!; echo $?; sleep 9 & kill %%; wait %% 2>/dev/null; echo $?";
    assert_as_alone(&place, test, "bash", &["-c", jobs]);
}

#[test]
fn interpreters_and_tools() {
    let (place, test) = (Place::new(), "interpreters_and_tools");
    let folder = place.folder();
    fs::write(folder.join("pi.bc"), "scale=60; 4*a(1)\nquit\n").unwrap();
    fs::write(folder.join("script.cmake"), "file(SHA1 pi.bc sum)\nexecute_process(COMMAND echo ${sum})\n").unwrap();
    fs::write(folder.join("prime.lua"), "local n = 0; for i = 2, 3000 do local p = true; for j = 2, i // 2 do if i % j == 0 then p = false; break end end; if p then n = n + 1 end end; print(n, os.getenv('HOME'))").unwrap();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5000) SELECT sum(i*i), count(*) FROM n;";
    assert_as_alone(
        &place,
        test,
        "perl",
        &["-MPOSIX", "-e", "printf qq(%s %.6f\\n), join(q(,), sort map { $_ ** 2 % 97 } 1..200), floor(sqrt(2) * 1e6)"],
    );
    assert_as_alone(&place, test, "sqlite3", &[":memory:", sql]);
    assert_as_alone(&place, test, "bc", &["-lq", "pi.bc"]);
    assert_as_alone(&place, test, "lua5.4", &["prime.lua"]);
    assert_as_alone(
        &place,
        test,
        "mawk",
        &[
            "BEGIN { for (i = 0; i < 9999; i++) a[i % 101] += i; for (k = 0; k < 101; k++) s += a[k] * k; print s, ENVIRON[\"HOME\"] }",
        ],
    );
    assert_as_alone(&place, test, "cmake", &["-P", "script.cmake"]);
    assert_as_alone(
        &place,
        test,
        "gm",
        &["convert", "-size", "6x6", "gradient:red-blue", "-blur", "0x2", "-rotate", "7", "txt:-"],
    );
}

#[test]
fn git_and_make() {
    let (place, test) = (Place::new(), "git_and_make");
    if installed(test, Need::Programs, "git") {
        let history = "git init -q . && git config user.name a && git config user.email b && for i in 1 2 3 4; do echo $i >file; git add file; git commit -qm \"change $i\"; done";
        let folder = place.folder().join("history");
        fs::create_dir(&folder).unwrap();
        assert!(Command::new("sh").args(["-c", history]).current_dir(&folder).status().unwrap().success());
        assert_as_alone(&place, test, "git", &["-C", "history", "log", "-p", "--format=%s", "--no-color"]);
        assert_as_alone(&place, test, "git", &["-C", "history", "rev-list", "--objects", "--all"]);
    }
    let makefile = "D := out.$(RANK)\nall: $(D)/program\n\t@./$< | sort\n$(D)/%.o: %.c | $(D)\n\t@$(CC) -c -o $@ $<\n$(D)/program: $(D)/one.o $(D)/two.o\n\t@$(CC) -o $@ $^\n$(D):\n\t@mkdir $@\n";
    for (name, text) in [
        ("Makefile", makefile),
        ("one.c", "#include <stdio.h>\nint two(void);\nint main(void) { printf(\"%d\\n\", two()); return 0; }\n"),
        ("two.c", "int two(void) { return 2; }\n"),
    ] {
        fs::write(place.folder().join(name), text).unwrap();
    }
    assert_as_alone(&place, test, "make", &["-s", "-j2"]);
}

#[test]
fn programs_of_all_compilers() {
    let (place, test) = (Place::new(), "programs_of_all_compilers");
    let openmp = "#include <stdio.h>\n#include <omp.h>\nint main(void) { double s = 0;\n#pragma omp parallel for reduction(+:s) num_threads(3) schedule(dynamic)\nfor (int i = 0; i < 100000; i++) s += i % 7; printf(\"%.0f %d\\n\", s, omp_in_parallel()); return 5; }\n";
    let cpp = "#include <iostream>\n#include <stdexcept>\n#include <thread>\n#include <vector>\n#include <map>\nint main() { std::map<int, std::string> m; for (int i = 0; i < 999; i++) m[i * 31 % 101] += 'x'; std::vector<std::thread> t; thread_local int own = 3; long sum[4] = {}; for (int i = 0; i < 4; i++) t.emplace_back([&, i] { try { if (i == 2) throw std::runtime_error(\"two\"); sum[i] = own + i; } catch (std::exception &e) { sum[i] = 40; } }); for (auto &o : t) o.join(); try { m.at(5000); } catch (std::out_of_range &) { std::cout << \"caught \"; } std::cout << m.size() << ' ' << sum[0] + sum[1] + sum[2] + sum[3] << std::endl; }\n";
    let fortran = "program p\n  real(8) :: a(200,200), b(200,200)\n  character(len=20) :: home\n  a = 1.5d0; b = 2d0\n  a = matmul(a, b)\n  call get_environment_variable('HOME', home)\n  print '(f12.3,1x,a)', sum(a), trim(home)\nend program\n";
    let rust = "use std::{collections::HashMap, sync::mpsc, thread};\nfn main() { let (to, from) = mpsc::channel(); for i in 0..4u64 { let to = to.clone(); thread::spawn(move || to.send((0..1000).map(|n| n * i).sum::<u64>()).unwrap()); } drop(to); let all: HashMap<u64, ()> = from.iter().map(|n| (n, ())).collect(); let mut keys: Vec<_> = all.into_keys().collect(); keys.sort(); println!(\"{keys:?}\"); std::process::exit(3) }\n";
    let go = "package main\nimport (\"fmt\"; \"os\"; \"sort\")\nfunc main() { c := make(chan int); for i := 0; i < 8; i++ { go func(i int) { c <- i * i }(i) }; var all []int; for i := 0; i < 8; i++ { all = append(all, <-c) }; sort.Ints(all); m := map[string]int{\"a\": 1}; fmt.Println(all, m, os.Getenv(\"HOME\")); os.Exit(2) }\n";
    let programs: [(&[&str], &str, &str); 6] = [
        (&["gcc", "-O2", "-fopenmp"], "openmp.c", openmp),
        (&["g++", "-O2", "-pthread"], "all.cpp", cpp),
        (&["g++", "-O2", "-pthread", "-static-pie"], "static.cpp", cpp),
        (&["gfortran", "-O2"], "matrix.f90", fortran),
        (&["rustc", "-O"], "channel.rs", rust),
        (&["go", "build", "-buildmode=pie"], "routines.go", go),
    ];
    for (compiler, name, source) in programs {
        if let Some(program) = compiled(&place, test, compiler, name, source) {
            assert_as_alone(&place, test, &program, &[]);
        }
    }
}
