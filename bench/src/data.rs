//! Input files for the measured programs, the same on every machine.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use random::Random;

/// Writes a square picture of slowly changing colours with noise, `edge` x `edge` pixels, as PPM.
///
/// # Errors
/// When the file cannot be written.
pub fn write_picture(path: &Path, edge: usize) -> std::io::Result<()> {
    let mut random = Random::new(1);
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "P6 {edge} {edge} 255")?;
    for y in 0..edge {
        for x in 0..edge {
            let noise = random.below(32);
            let colour = [x * 200 / edge + noise, y * 200 / edge + noise, (x + y) * 100 / edge + noise];
            file.write_all(&colour.map(|part| part as u8))?;
        }
    }
    file.flush()
}

/// Writes a text of recurring words, a little more than `bytes` long.
///
/// # Errors
/// When the file cannot be written.
pub fn write_words(path: &Path, bytes: usize) -> std::io::Result<()> {
    let mut random = Random::new(2);
    let vocabulary: Vec<String> = (0..4_000)
        .map(|_| (0..3 + random.below(8)).map(|_| char::from(b'a' + random.below(26) as u8)).collect())
        .collect();
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    while written < bytes {
        // Take the smaller of two random indices, so that words at small indices are more frequent than others.
        let word = &vocabulary[random.below(vocabulary.len()).min(random.below(vocabulary.len()))];
        let end = if random.below(12) == 0 { '\n' } else { ' ' };
        write!(file, "{word}{end}")?;
        written += word.len() + 1;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn data_are_the_same_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let twice = |write: &dyn Fn(&Path)| {
            [0, 1].map(|_| {
                let path = folder.path().join("data");
                write(&path);
                fs::read(path).unwrap()
            })
        };
        let [first, second] = twice(&|path| write_words(path, 10_000).unwrap());
        assert!(first == second && first.len() >= 10_000);
        let [first, second] = twice(&|path| write_picture(path, 20).unwrap());
        assert!(first == second && first.starts_with(b"P6 20 20 255\n") && first.len() == 13 + 20 * 20 * 3);
    }
}
