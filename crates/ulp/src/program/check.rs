//! What is different for a program that runs as a ULP, as far as its file and its limits show. Whether it can run at all is a matter of its layout.

/// What is known about a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Functions that the program imports.
    pub imports: &'a [String],
    /// Whether its file contains the path by which a program finds its own file, [`OWN_FILE`].
    pub names_own_file: bool,
    /// Whether its file gives rights to who executes it: set-user-id, set-group-id, capabilities.
    pub gives_rights: bool,
    /// The value of GLIBC_TUNABLES.
    pub tunables: &'a str,
    /// Limit of the address space (RLIMIT_AS), bytes; `None`: unlimited.
    pub address_space: Option<u64>,
}

/// The path by which a program finds its own file.
pub const OWN_FILE: &str = "/proc/self/exe";

/// Functions that move the break.
const BREAK: [&str; 2] = ["brk", "sbrk"];

/// Symbols that programs import to use restartable sequences: librseq's, and glibc's.
const RSEQ: [&str; 3] = ["__rseq_abi", "__rseq_offset", "rseq_register_current_thread"];

/// Something that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// What is different, and where it is seen.
    pub what: String,
    /// What to do about it.
    pub way_out: &'static str,
}

/// Returns what is different.
#[must_use]
pub fn remarks(facts: &Facts<'_>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |what: String, way_out| remarks.push(Remark { what, way_out });
    if facts.gives_rights {
        add(
            "its file gives rights (set-user-id, set-group-id or capabilities); as a ULP it has those of its caller"
                .to_owned(),
            "run it as an ordinary process",
        );
    }
    if let Some(function) = facts.imports.iter().find(|name| BREAK.contains(&name.as_str())) {
        add(
            format!(
                "it calls {function}(); the break belongs to the address space and cannot move, so the call fails with ENOMEM"
            ),
            "allocate with malloc() or mmap()",
        );
    }
    if let Some(symbol) = facts.imports.iter().find(|name| RSEQ.contains(&name.as_str())) {
        add(
            format!("it uses restartable sequences ({symbol}), which do not work on carriers"),
            "if it yields, run it with --coupled",
        );
    }
    if asks_for_shadow_stacks(facts.tunables) {
        add(
            "GLIBC_TUNABLES asks for shadow stacks, so that ULPs stay coupled".to_owned(),
            "leave out what enables them (glibc.cpu.hwcaps=SHSTK, glibc.cpu.x86_shstk)",
        );
    }
    if facts.names_own_file {
        add(
            format!(
                "it contains \"{OWN_FILE}\": readlink() and realpath() give its own path, but what it opens there is the file of the host"
            ),
            "nothing, if it reads the link, as most programs do; otherwise tell the program where its files are",
        );
    }
    if let Some(bytes) = facts.address_space {
        add(
            format!("the address space is limited to {} MiB (ulimit -v), which all ULPs share", bytes >> 20),
            "raise the limit by the number of ULPs, or remove it",
        );
    }
    remarks
}

/// Whether the value of GLIBC_TUNABLES makes glibc enable shadow stacks, where processor and kernel have them. Upstream glibc does so for
/// `glibc.cpu.hwcaps=SHSTK`, distributions that enable them by default only as `glibc.cpu.x86_shstk` says.
fn asks_for_shadow_stacks(tunables: &str) -> bool {
    let last = |name: &str| tunables.split(':').filter_map(|one| one.strip_prefix(name)).next_back();
    let by_hwcaps = last("glibc.cpu.hwcaps=").is_some_and(|value| value.split(',').any(|one| one == "SHSTK"));
    by_hwcaps || last("glibc.cpu.x86_shstk=").is_some_and(|value| value != "off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_ask_for_shadow_stacks() {
        let asks = asks_for_shadow_stacks;
        assert!(asks("glibc.cpu.x86_shstk=on") && asks("glibc.malloc.check=1:glibc.cpu.x86_shstk=permissive"));
        assert!(asks("glibc.cpu.hwcaps=-AVX2_Usable,SHSTK") && !asks("glibc.cpu.hwcaps=-SHSTK"));
        assert!(!asks("") && !asks("glibc.cpu.x86_ibt=on") && !asks("glibc.cpu.x86_shstk=on:glibc.cpu.x86_shstk=off"));
    }

    #[test]
    fn only_what_is_different_is_remarked() {
        let imports = ["malloc".to_owned(), "brk_of_mine".to_owned()];
        assert_eq!(remarks(&Facts { imports: &imports, ..Facts::default() }), []);
        let imports = ["malloc", "sbrk", "__rseq_offset"].map(str::to_owned);
        let facts = Facts {
            imports: &imports,
            names_own_file: true,
            gives_rights: true,
            tunables: "glibc.cpu.x86_shstk=on",
            address_space: Some(512 << 20),
        };
        let all: Vec<String> = remarks(&facts).into_iter().map(|remark| remark.what).collect();
        for (part, what) in
            ["set-user-id", "sbrk()", "(__rseq_offset)", "shadow stacks", "/proc/self/exe", "512 MiB"].iter().zip(&all)
        {
            assert!(what.contains(part), "{what}");
        }
        assert_eq!(all.len(), 6);
    }
}
