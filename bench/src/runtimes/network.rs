//! An Ethernet of a known speed between two network namespaces: a pair of virtual devices, each with a token bucket filter (TBF). The time that the
//! bytes take at that speed is a lower bound for every runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::leftovers;

/// Folder in which `ip netns` keeps the namespaces.
const NAMES: &str = "/run/netns";
/// Name of the device in each of the two network namespaces.
const DEVICE: &str = "eth";
/// Addresses for benchmarks (RFC 2544). These namespaces contain no other device with an address.
const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const PORT: u16 = 20000;
/// Queue length in bytes: more than the programs ever have in flight, so that no packet is dropped. TCP would send a dropped packet again much
/// later.
const QUEUE: u32 = 4 << 20;
/// Size of the token bucket, as a time in seconds: it holds the bytes that pass in this time, but at least [`BUCKET_LEAST`] bytes (two frames).
const BUCKET_S: f64 = 0.002;
const BUCKET_LEAST: f64 = 4096.0;

/// Two connected network namespaces; they are removed when the value is dropped.
pub struct Network {
    names: [String; 2],
}

impl Network {
    /// Makes both namespaces and connects them.
    ///
    /// # Errors
    /// Without root, or without iproute2.
    pub fn new() -> Result<Network> {
        // From here on, `drop` removes the namespaces, even if the rest fails.
        let network = Network { names: [0, 1].map(|rank| leftovers::name(&format!("rank-{rank}"))) };
        let [first, second] = &network.names;
        network.names.iter().try_for_each(|name| ip(&["netns", "add", name]))?;
        ip(&["link", "add", DEVICE, "netns", first, "type", "veth", "peer", "name", DEVICE, "netns", second])?;
        for (name, address) in network.names.iter().zip(ADDRESSES) {
            ip(&["-n", name, "addr", "add", &format!("{address}/30"), "dev", DEVICE])?;
            ip(&["-n", name, "link", "set", DEVICE, "up"])?;
        }
        Ok(network)
    }

    /// Sets the speed of each direction, in bytes per second. `None` removes the limit.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set(&self, bytes_a_second: Option<f64>) -> Result<()> {
        for name in &self.names {
            let at = ["-n", name.as_str(), "qdisc"];
            match bytes_a_second {
                Some(speed) => {
                    let rate = format!("{speed:.0}bps");
                    let burst = format!("{:.0}", (speed * BUCKET_S).max(BUCKET_LEAST));
                    let (limit, words) = (QUEUE.to_string(), ["replace", "dev", DEVICE, "root", "tbf", "rate"]);
                    run("tc", at.iter().chain(&words).copied().chain([&*rate, "burst", &burst, "limit", &limit]))?;
                }
                None if self.is_shaped(name)? => run("tc", at.into_iter().chain(["del", "dev", DEVICE, "root"]))?,
                None => {}
            }
        }
        Ok(())
    }

    fn is_shaped(&self, name: &str) -> Result<bool> {
        Ok(queue(name)?["kind"] == "tbf")
    }

    /// Returns how many bytes of frames each of the two devices has sent so far; 0 for a device whose speed is not limited.
    ///
    /// # Errors
    /// When tc fails.
    pub fn sent(&self) -> Result<[f64; 2]> {
        let of = |name: &String| Ok::<f64, anyhow::Error>(queue(name)?["bytes"].as_f64().unwrap_or(0.0));
        Ok([of(&self.names[0])?, of(&self.names[1])?])
    }

    /// Returns the command prefix that runs a rank in its network namespace.
    pub fn enter(&self, rank: usize) -> String {
        format!("nsenter --net={}", self.file(rank).display())
    }

    /// Returns the file of a rank's namespace.
    pub fn file(&self, rank: usize) -> PathBuf {
        Path::new(NAMES).join(&self.names[rank])
    }

    /// Returns the address on which rank 0 listens.
    pub fn peer() -> String {
        format!("{}:{PORT}", ADDRESSES[0])
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| remove(name));
    }
}

/// Removes the namespaces that killed experiments have left.
pub fn clean() {
    leftovers::in_folder(Path::new(NAMES)).iter().for_each(|name| remove(name));
}

/// Removes a namespace. Its device is removed first, because a process that still runs in the namespace would keep the device alive, too.
fn remove(name: &str) {
    let silently = |words: &[&str]| Command::new("ip").args(words).output();
    // Errors are ignored: the namespace may not exist, or the device went away with its peer.
    let _ = silently(&["-n", name, "link", "del", DEVICE]);
    let _ = silently(&["netns", "del", name]);
}

fn queue(name: &str) -> Result<Value> {
    let said = said("tc", ["-n", name, "-s", "-j", "qdisc", "show", "dev", DEVICE])?;
    let list: Value = serde_json::from_str(&said).context("cannot parse the output of tc")?;
    Ok(list[0].clone())
}

fn ip(words: &[&str]) -> Result<()> {
    run("ip", words.iter().copied())
}

fn run<'a>(program: &str, words: impl IntoIterator<Item = &'a str>) -> Result<()> {
    said(program, words).map(drop)
}

fn said<'a>(program: &str, words: impl IntoIterator<Item = &'a str>) -> Result<String> {
    let words: Vec<&str> = words.into_iter().collect();
    let output = Command::new(program).args(&words).output();
    let output = output.with_context(|| format!("cannot run {program} (Debian: iproute2)"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("two ranks need root and network namespaces: {program} {}: {}", words.join(" "), why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use testkit::skip::{Need, installed, is_root};

    use super::*;

    fn exists(name: &str) -> bool {
        Path::new(NAMES).join(name).exists()
    }

    #[test]
    fn namespaces_are_joined_and_shaped_and_go_with_what_was_left() {
        let test = "namespaces_are_joined_and_shaped_and_go_with_what_was_left";
        if !is_root(test) || !installed(test, Need::Programs, "tc") {
            return;
        }
        let left = "cox-bench-4194305-rank-0";
        ip(&["netns", "add", left]).unwrap();
        clean();
        let network = Network::new().unwrap();
        assert!(!exists(left), "left by a process that has ended");
        assert!(network.names.iter().all(|name| exists(name)));
        assert_eq!(network.sent().unwrap(), [0.0, 0.0]);
        network.set(Some(1e6)).unwrap();
        assert!(network.names.iter().all(|name| network.is_shaped(name).unwrap()));
        let before = network.sent().unwrap()[0];
        let words = ["--net=/run/netns/".to_owned() + &network.names[0], "bash".into(), "-c".into()];
        // Nobody listens: what counts is that a frame goes out.
        let connect = format!("exec 3<>/dev/tcp/{}/9", ADDRESSES[1]);
        Command::new("nsenter").args(words).arg(connect).output().unwrap();
        assert!(network.sent().unwrap()[0] > before);
        network.set(None).unwrap();
        assert!(network.names.iter().all(|name| !network.is_shaped(name).unwrap()));
        let names = network.names.clone();
        drop(network);
        assert!(names.iter().all(|name| !exists(name)));
    }
}
