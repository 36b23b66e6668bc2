//! Places in machine code that call mmap(2), mremap(2) or readlink(2), and the entries to which such calls are redirected.
//!
//! The C library loads the number of a system call and makes the call by two instructions of 7 bytes together. A jump to an *entry* takes 5. The entry
//! calls a function with the registers as the kernel would have found them, and jumps back behind the two instructions.

use std::ops::Range;

use memchr::memmem;

use crate::redirections::Site;

/// Length of a site, bytes.
pub const SITE_BYTES: usize = 7;

/// The flag of mmap(2) for addresses below 2 GB (MAP_32BIT of the kernel's asm/mman.h).
pub const MAP_LOW: u64 = 0x40;

/// The system calls in question, mmap(2), mremap(2) and readlink(2), by their numbers.
const NUMBERS: [u8; 3] = [9, 25, 89];
/// Jumps to a site from further away would be in another function.
const NEAR: usize = 4096;

/// Finds the sites in machine code. One that another instruction jumps into is left out: there, the call may be another one.
pub fn sites(code: &[u8]) -> impl Iterator<Item = Site> {
    // mov $number,%eax; syscall: what follows the lowest byte of the number.
    let calls = memmem::find_iter(code, &[0, 0, 0, 0x0f, 0x05]).filter_map(|rest| {
        let at = rest.checked_sub(2)?;
        (code[at] == 0xb8 && NUMBERS.contains(&code[at + 1])).then(|| Site { at, number: code[at + 1].into() })
    });
    calls.filter(|site| !is_jumped_into(code, site.at + 1..site.at + SITE_BYTES))
}

/// Whether bytes nearby look like a direct jump to one of these places. Data that look so only cost a site.
fn is_jumped_into(code: &[u8], places: Range<usize>) -> bool {
    let nearby = places.start.saturating_sub(NEAR)..(places.end + NEAR).min(code.len());
    nearby.into_iter().any(|at| {
        let target = match code[at..] {
            // jmp, jcc with 8 bits
            [0xeb | 0x70..=0x7f, by, ..] => at as i64 + 2 + i64::from(by as i8),
            // jmp with 32 bits
            [0xe9, a, b, c, d, ..] => at as i64 + 5 + i64::from(i32::from_le_bytes([a, b, c, d])),
            // jcc with 32 bits
            [0x0f, 0x80..=0x8f, a, b, c, d, ..] => at as i64 + 6 + i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => return false,
        };
        usize::try_from(target).is_ok_and(|target| places.contains(&target))
    })
}

/// Returns the instructions that replace the site at `from`: a jump to `to`, and a part that is never executed. `None`: too far.
#[must_use]
pub fn jump(from: u64, to: u64) -> Option<[u8; SITE_BYTES]> {
    const JUMP_BYTES: u64 = 5;
    let distance = i32::try_from(to.wrapping_sub(from + JUMP_BYTES) as i64).ok()?;
    let [a, b, c, d] = distance.to_le_bytes();
    // ud2
    Some([0xe9, a, b, c, d, 0x0f, 0x0b])
}

/// Defines `entries`, the addresses of the page with the entries, and `enter`, which they call. The page may be mapped again anywhere. In the memory just
/// before it must be a `$record`, with fields `enter` (u64, the address of `enter`) and `back` ([u64; ENTRIES], where each entry goes on). `$serve` is an
/// `unsafe extern "C" fn(&Call) -> i64`, which makes the system call.
#[macro_export]
macro_rules! redirections {
    ($record:ty, $serve:path) => {
        ::std::arch::global_asm!(
            ".pushsection .text.cox_redirections, \"ax\", @progbits",
            ".p2align 12",
            // For all units of the crate's code, but for no other file.
            ".globl cox_redirections",
            ".hidden cox_redirections",
            "cox_redirections:",
            ".set cox_entry, 0",
            ".rept {entries}",
            ".p2align 5",
            // The function may have data below its stack pointer (the red zone).
            "lea -128(%rsp), %rsp",
            "call *cox_redirections - {record} + {enter}(%rip)",
            "lea 128(%rsp), %rsp",
            "jmp *cox_redirections - {record} + {back} + 8 * cox_entry(%rip)",
            ".set cox_entry, cox_entry + 1",
            ".endr",
            ".p2align 12",
            ".popsection",
            entries = const $crate::redirections::ENTRIES,
            record = const ::std::mem::size_of::<$record>(),
            enter = const ::std::mem::offset_of!($record, enter),
            back = const ::std::mem::offset_of!($record, back),
            options(att_syntax),
        );

        unsafe extern "C" {
            #[link_name = "cox_redirections"]
            static REDIRECTIONS: u8;
        }

        /// Returns where the entries are.
        pub(crate) fn entries() -> u64 {
            &raw const REDIRECTIONS as u64
        }

        /// What entries call. A system call preserves all registers but rax, rcx and r11.
        ///
        /// # Safety
        /// Called by entries.
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn enter() {
            ::std::arch::naked_asm!(
                "push r9",
                "push r8",
                "push r10",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, rsp",
                "push rbx",
                "mov rbx, rsp",
                "sub rsp, 256",
                "and rsp, -16",
                "movaps [rsp], xmm0",
                "movaps [rsp + 16], xmm1",
                "movaps [rsp + 32], xmm2",
                "movaps [rsp + 48], xmm3",
                "movaps [rsp + 64], xmm4",
                "movaps [rsp + 80], xmm5",
                "movaps [rsp + 96], xmm6",
                "movaps [rsp + 112], xmm7",
                "movaps [rsp + 128], xmm8",
                "movaps [rsp + 144], xmm9",
                "movaps [rsp + 160], xmm10",
                "movaps [rsp + 176], xmm11",
                "movaps [rsp + 192], xmm12",
                "movaps [rsp + 208], xmm13",
                "movaps [rsp + 224], xmm14",
                "movaps [rsp + 240], xmm15",
                "call {serve}",
                "movaps xmm0, [rsp]",
                "movaps xmm1, [rsp + 16]",
                "movaps xmm2, [rsp + 32]",
                "movaps xmm3, [rsp + 48]",
                "movaps xmm4, [rsp + 64]",
                "movaps xmm5, [rsp + 80]",
                "movaps xmm6, [rsp + 96]",
                "movaps xmm7, [rsp + 112]",
                "movaps xmm8, [rsp + 128]",
                "movaps xmm9, [rsp + 144]",
                "movaps xmm10, [rsp + 160]",
                "movaps xmm11, [rsp + 176]",
                "movaps xmm12, [rsp + 192]",
                "movaps xmm13, [rsp + 208]",
                "movaps xmm14, [rsp + 224]",
                "movaps xmm15, [rsp + 240]",
                "mov rsp, rbx",
                "pop rbx",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop r10",
                "pop r8",
                "pop r9",
                "ret",
                serve = sym $serve,
            )
        }
    };
}

/// Makes a system call where it is dispatched, if the calling task's calls are.
///
/// # Safety
/// Those of the system call.
pub unsafe fn system_call(number: i64, arguments: [u64; 6]) -> i64 {
    let result;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller promises what the system call needs.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        )
    };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const MMAP: [u8; SITE_BYTES] = [0xb8, 9, 0, 0, 0, 0x0f, 0x05];

    fn found(parts: &[&[u8]]) -> Vec<Site> {
        sites(&parts.concat()).collect()
    }

    #[test]
    fn mmap_mremap_and_readlink_are_found_and_other_calls_are_not() {
        let [mremap, munmap, readlink] = [25, 11, 89].map(|number| [0xb8, number, 0, 0, 0, 0x0f, 0x05]);
        let all = found(&[&[0x90], &MMAP, &munmap, &mremap, &readlink, &[0xc3]]);
        assert_eq!(
            all,
            [1, 15, 22].into_iter().zip([9, 25, 89]).map(|(at, number)| Site { at, number }).collect::<Vec<_>>()
        );
        assert_eq!(found(&[&MMAP[..6]]), []);
    }

    #[test]
    fn what_is_jumped_into_is_left_out() {
        // A jump to the site itself is none into it.
        assert_eq!(found(&[&[0xeb, 0], &MMAP]).len(), 1);
        for jump in [&[0xeb, 5][..], &[0x74, 5], &[0xe9, 5, 0, 0, 0], &[0x0f, 0x84, 5, 0, 0, 0]] {
            assert_eq!(found(&[jump, &MMAP]), [], "{jump:x?}");
        }
        // From behind: 7 bytes of the jump and the site's last two.
        assert_eq!(found(&[&MMAP, &[0xeb, 0xfc]]), []);
    }

    #[test]
    fn jumps_lead_to_their_entry() {
        assert_eq!(jump(0x1000, 0x2000), Some([0xe9, 0xfb, 0x0f, 0, 0, 0x0f, 0x0b]));
        assert_eq!(jump(0x2000, 0x1000), Some([0xe9, 0xfb, 0xef, 0xff, 0xff, 0x0f, 0x0b]));
        assert_eq!(jump(0, 1 << 32), None);
    }
}
