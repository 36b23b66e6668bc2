//! The inputs of the programs: small, made by us, the same every time. Each function makes them in the program's own folder.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use random::Random;

use crate::data::{write_picture, write_words};
use crate::tools;

const STENCIL: &str = include_str!("sources/stencil.c");
const HALO: &str = include_str!("sources/halo.c");
const JAVA: &str = include_str!("sources/Pool.java");
const GO: &str = include_str!("sources/pool.go.txt");
const NODE_POOL: &str = include_str!("sources/pool.js");
const NODE_ALONE: &str = include_str!("sources/alone.js");
const PYTHON_ALONE: &str = include_str!("sources/alone.py");
const MULTIPLY: &str = include_str!("sources/multiply.py");
const REDIS: &str = include_str!("sources/redis.sh");
const MEMCACHED: &str = include_str!("sources/memcached.sh");
const LOAD: &str = include_str!("sources/load.py");

/// Makes nothing: the program needs no input.
pub fn none(_: &Path) -> Result<()> {
    Ok(())
}

/// Runs a tool in the folder, which must end well.
fn tool(folder: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot start {}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    bail!("{}: {last}", words[0])
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A picture for GraphicsMagick.
pub fn picture(folder: &Path) -> Result<()> {
    write_picture(&folder.join("picture.ppm"), 1_200).context("cannot write the picture")
}

/// A text for compressors that are slow.
pub fn words(folder: &Path) -> Result<()> {
    write_words(&folder.join("words"), 16 << 20).context("cannot write the text")
}

/// A text for compressors that are fast.
pub fn many_words(folder: &Path) -> Result<()> {
    write_words(&folder.join("words"), 48 << 20).context("cannot write the text")
}

/// Lines in random order.
pub fn lines(folder: &Path) -> Result<()> {
    let mut random = Random::new(3);
    let mut file = BufWriter::new(File::create(folder.join("lines"))?);
    for _ in 0..1_500_000 {
        writeln!(file, "{:016x}", random.number())?;
    }
    file.flush().context("cannot write the lines")
}

/// Related protein sequences, as FASTA: 300 in `sequences.fa`, of which 40 are in `few.fa`.
pub fn sequences(folder: &Path) -> Result<()> {
    const AMINO: &[u8] = b"ACDEFGHIKLMNPQRSTVWY";
    let mut random = Random::new(4);
    let root: Vec<u8> = (0..300).map(|_| AMINO[random.below(AMINO.len())]).collect();
    let (mut all, mut few) = (String::new(), String::new());
    for number in 0..300 {
        let kept = root.iter().filter(|_| random.below(20) > 0).copied().collect::<Vec<u8>>();
        let changed =
            kept.iter().map(|&letter| if random.below(4) == 0 { AMINO[random.below(AMINO.len())] } else { letter });
        let sequence: String = changed.map(char::from).collect();
        let _ = writeln!(all, ">s{number}\n{sequence}");
        if number < 40 {
            let _ = writeln!(few, ">s{number}\n{sequence}");
        }
    }
    write(folder, "sequences.fa", &all)?;
    write(folder, "few.fa", &few)
}

/// An alkane with 70 carbon atoms, stretched, as XYZ.
pub fn molecule(folder: &Path) -> Result<()> {
    const CARBONS: usize = 70;
    let mut atoms = Vec::new();
    for number in 0..CARBONS {
        let x = 1.27 * number as f64;
        let (y, up) = if number % 2 == 0 { (0.0, -1.0) } else { (0.85, 1.0) };
        atoms.push(format!("C {x:.4} {y:.4} 0.0"));
        for side in [-0.89, 0.89] {
            atoms.push(format!("H {x:.4} {:.4} {side:.4}", y + 0.63 * up));
        }
    }
    // The ends of the chain have a third hydrogen atom.
    let end = 1.27 * (CARBONS - 1) as f64;
    atoms.push("H -0.9 0.63 0.0".to_owned());
    atoms.push(format!("H {:.4} 0.22 0.0", end + 0.9));
    write(folder, "chain.xyz", &format!("{}\n\n{}\n", atoms.len(), atoms.join("\n")))
}

/// A crystal of Lennard-Jones atoms that melts.
pub fn lammps(folder: &Path) -> Result<()> {
    let script = "units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 16 0 16 0 16\ncreate_box 1 box\n\
        create_atoms 1 box\nmass 1 1.0\nvelocity all create 3.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\n\
        neighbor 0.3 bin\nneigh_modify every 20 delay 0 check no\nfix 1 all nve\nthermo 50\nrun 100\n";
    write(folder, "melt.lmp", script)
}

/// A box of water for gromacs, prepared by its own tools.
pub fn water(folder: &Path) -> Result<()> {
    if folder.join("water.tpr").is_file() {
        return Ok(());
    }
    let topology =
        "#include \"oplsaa.ff/forcefield.itp\"\n#include \"oplsaa.ff/spc.itp\"\n[ system ]\nwater\n[ molecules ]\n";
    write(folder, "topol.top", topology)?;
    let steps = "integrator = md\ndt = 0.001\nnsteps = 150\ncutoff-scheme = Verlet\nnstcalcenergy = 50\nrcoulomb = 0.9\nrvdw = 0.9\n\
        coulombtype = PME\ntcoupl = v-rescale\ntc-grps = System\ntau-t = 0.1\nref-t = 300\ngen-vel = yes\ngen-seed = 1\n";
    write(folder, "water.mdp", steps)?;
    tool(
        folder,
        &["gmx", "solvate", "-cs", "spc216.gro", "-box", "4", "4", "4", "-p", "topol.top", "-o", "water.gro"],
    )?;
    let run = ["-f", "water.mdp", "-c", "water.gro", "-p", "topol.top", "-o", "water.tpr", "-maxwarn", "9"];
    tool(folder, &[&["gmx", "grompp"], &run[..]].concat())
}

/// Multiplies matrices with numpy.
pub fn matrices(folder: &Path) -> Result<()> {
    tool(folder, &["/usr/bin/python3", "-c", "import numpy"])?;
    write(folder, "multiply.py", MULTIPLY)
}

/// A scene of spheres for POV-Ray.
pub fn scene(folder: &Path) -> Result<()> {
    let mut text = "camera { location <0, 3, -14> look_at <0, 0, 0> }\nlight_source { <10, 20, -20> color rgb 1 }\n\
        plane { y, -3 pigment { checker color rgb 0.2, color rgb 0.9 } finish { reflection 0.3 } }\n"
        .to_owned();
    for number in 0..60 {
        let (x, y, z) = ((number % 10) as f64 - 4.5, (number / 10) as f64 - 2.0, (number * 7 % 5) as f64);
        let _ = writeln!(
            text,
            "sphere {{ <{x:.1}, {y:.1}, {z:.1}>, 0.55 pigment {{ color rgb <{:.2}, 0.5, 0.7> }} finish {{ reflection 0.4 phong 1 }} }}",
            number as f64 / 60.0
        );
    }
    write(folder, "scene.pov", &text)
}

/// A class that computes in the common pool of Java.
pub fn java(folder: &Path) -> Result<()> {
    write(folder, "Pool.java", JAVA)?;
    if folder.join("Pool.class").is_file() { Ok(()) } else { tool(folder, &["javac", "Pool.java"]) }
}

/// A program with goroutines.
pub fn go(folder: &Path) -> Result<()> {
    write(folder, "pool.go", GO)?;
    tool(folder, &["go", "build", "-o", "pool", "pool.go"])
}

/// Scripts for node: one for its pool of threads, one for its main thread.
pub fn node(folder: &Path) -> Result<()> {
    write(folder, "pool.js", NODE_POOL)?;
    write(folder, "alone.js", NODE_ALONE)
}

/// A script that computes in Python's own loops.
pub fn python(folder: &Path) -> Result<()> {
    write(folder, "alone.py", PYTHON_ALONE)
}

/// A query that counts and sorts generated rows.
pub fn query(folder: &Path) -> Result<()> {
    let query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200000)\n\
        SELECT count(*), max(k) FROM (SELECT (i * 7919) % 1000003 AS k FROM n ORDER BY k);\n";
    write(folder, "query.sql", query)
}

/// A C project with 24 files.
pub fn project(folder: &Path) -> Result<()> {
    const FILES: usize = 24;
    const FUNCTIONS: usize = 10;
    let objects: Vec<String> = (0..FILES).map(|number| format!("part{number}.o")).collect();
    for number in 0..FILES {
        let mut code = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        for function in 0..FUNCTIONS {
            let _ = writeln!(
                code,
                "double f{number}_{function}(double *v, int n) {{ double s = 0; for (int i = 1; i < n; i++) {{ \
                 v[i] = v[i - 1] * {}.5 + v[i] / (1.0 + i); if (v[i] > 1e9) v[i] = 0; s += v[i] * v[n - i]; }} return s; }}",
                function + 1
            );
        }
        write(folder, &format!("part{number}.c"), &code)?;
    }
    let rules = format!("all: {0}\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n.PHONY: all\n", objects.join(" "));
    write(folder, "Makefile", &rules)
}

/// A server with a benchmark of its own.
pub fn redis(folder: &Path) -> Result<()> {
    tool(folder, &["redis-benchmark", "--version"])?;
    write(folder, "run.sh", REDIS)
}

/// A server with a load that we made.
pub fn memcached(folder: &Path) -> Result<()> {
    write(folder, "load.py", LOAD)?;
    write(folder, "run.sh", MEMCACHED)
}

/// The stencil by gcc.
pub fn stencil_gcc(folder: &Path) -> Result<()> {
    stencil(folder, "gcc", &[])
}

/// The stencil by clang.
pub fn stencil_clang(folder: &Path) -> Result<()> {
    // The runtime can be of another version than clang, and then clang does not find it.
    let runtime = tools::libomp();
    let of_runtime = runtime.as_deref().and_then(Path::parent).and_then(Path::to_str);
    let options = of_runtime.map(|folder| vec![format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]);
    stencil(folder, "clang", &options.unwrap_or_default())
}

fn stencil(folder: &Path, compiler: &str, options: &[String]) -> Result<()> {
    write(folder, "stencil.c", STENCIL)?;
    let command = [compiler, "-O2", "-fopenmp", "-o", "stencil", "stencil.c", "-lm"];
    let words: Vec<&str> = command.into_iter().chain(options.iter().map(String::as_str)).collect();
    tool(folder, &words)
}

/// The exchange of borders by MPICH.
pub fn halo_mpich(folder: &Path) -> Result<()> {
    halo(folder, "mpicc.mpich")
}

/// The exchange of borders by Open MPI.
pub fn halo_openmpi(folder: &Path) -> Result<()> {
    halo(folder, "mpicc.openmpi")
}

fn halo(folder: &Path, compiler: &str) -> Result<()> {
    write(folder, "halo.c", HALO)?;
    tool(folder, &[compiler, "-O2", "-o", "halo", "halo.c"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_inputs_are_the_same_every_time() {
        let folder = tempfile::tempdir().unwrap();
        for (make, file) in [
            (sequences as fn(&Path) -> Result<()>, "few.fa"),
            (molecule, "chain.xyz"),
            (lammps, "melt.lmp"),
            (scene, "scene.pov"),
            (query, "query.sql"),
            (project, "part7.c"),
        ] {
            let [first, second] = [0, 1].map(|_| {
                make(folder.path()).unwrap();
                fs::read(folder.path().join(file)).unwrap()
            });
            assert!(first == second && !first.is_empty(), "{file}");
        }
        let chain = fs::read_to_string(folder.path().join("chain.xyz")).unwrap();
        assert_eq!(chain.lines().count(), 2 + 70 + 142, "C70H142");
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let error = tool(Path::new("/"), &["sh", "-c", "echo first >&2; echo wrong >&2; exit 3"]).unwrap_err();
        assert_eq!(error.to_string(), "sh: wrong");
        assert!(tool(Path::new("/"), &["no-such-tool"]).is_err());
    }
}
