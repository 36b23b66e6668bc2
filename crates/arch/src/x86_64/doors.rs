//! Doors: functions whose caller has to be known, or that must not look at what is carried through. In assembly, since only that sees the return
//! address and leaves arguments of any number where they are. And a word that each thread has, where two instructions find it.

/// Defines interposed functions of one argument or none: `$inner` has their argument, whatever it is, and
/// their return address.
#[macro_export]
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            ::std::arch::naked_asm!("mov rsi, [rsp]", "jmp {inner}", inner = sym $inner)
        }
    )* };
}

/// Asks `{inner}`, which has the first of any integer arguments, if there is one, and the return address, where to go on, and goes there
/// with all arguments as they came.
#[doc(hidden)]
#[macro_export]
macro_rules! by_way_asm {
    () => {
        // The six registers of arguments; a seventh word keeps the stack aligned for the call. The first argument is
        // still in its place; the return address lies above the seven words.
        "push rdi
         push rsi
         push rdx
         push rcx
         push r8
         push r9
         sub rsp, 8
         mov rsi, [rsp + 56]
         call {inner}
         add rsp, 8
         pop r9
         pop r8
         pop rcx
         pop rdx
         pop rsi
         pop rdi
         jmp rax"
    };
}

/// Defines interposed functions of any integer arguments: `$inner` has the first of them, if there is one, and their
/// return address, and says where to go on, with all arguments as they came.
#[macro_export]
macro_rules! by_way_of {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            ::std::arch::naked_asm!($crate::by_way_asm!(), inner = sym $inner)
        }
    )* };
}

/// Defines a function as [`by_way_of`] does, that is not interposed: somebody has its address.
#[macro_export]
macro_rules! by_way_of_inside {
    ($name:ident => $inner:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            ::std::arch::naked_asm!($crate::by_way_asm!(), inner = sym $inner)
        }
    };
}

/// The same as [`by_way_of`], but that they lead to `$ours` at once where the thread's [word](own_word) points to memory whose word at offset
/// `$at` is not zero.
#[macro_export]
macro_rules! ours_or_by_way_of {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path, else $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            // No argument is in rax.
            ::std::arch::naked_asm!(
                "mov rax, qword ptr [rip + cox_preload_word@GOTTPOFF]",
                "mov rax, qword ptr fs:[rax]",
                "test rax, rax",
                "jz 2f",
                "cmp qword ptr [rax + {at}], 0",
                "jne {ours}",
                "2:",
                $crate::by_way_asm!(),
                at = const $at,
                ours = sym $ours,
                inner = sym $inner,
            )
        }
    )* };
}

/// Defines an interposed function that goes where `$place` says.
#[macro_export]
macro_rules! by_place {
    ($($(#[$doc:meta])* $name:ident => $place:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            ::std::arch::naked_asm!("jmp qword ptr [rip + {place}]", place = sym $place)
        }
    )* };
}

/// Defines a word that each thread has, 0 at first, with the functions `word` and `set_word`. Once in a library.
///
/// A library's thread-local variables are else found by a function call (`__tls_get_addr`). This one lies at a fixed distance from the
/// thread's pointer, which a library may have that is there when the program starts, and few bytes of.
#[macro_export]
macro_rules! own_word {
    () => {
        ::std::arch::global_asm!(
            ".pushsection .tbss, \"awT\", @nobits",
            ".p2align 3",
            ".globl cox_preload_word",
            ".hidden cox_preload_word",
            ".type cox_preload_word, @object",
            ".size cox_preload_word, 8",
            "cox_preload_word:",
            ".zero 8",
            ".popsection",
        );

        /// The calling thread's word.
        #[inline]
        fn word() -> usize {
            let word;
            // SAFETY: reads the variable above, which is there in each thread. Only `set_word` writes it.
            unsafe {
                ::std::arch::asm!(
                    "mov {0}, qword ptr [rip + cox_preload_word@GOTTPOFF]",
                    "mov {0}, qword ptr fs:[{0}]",
                    out(reg) word,
                    options(nostack, preserves_flags, readonly),
                );
            }
            word
        }

        /// Sets the calling thread's word.
        fn set_word(word: usize) {
            // SAFETY: writes the variable above.
            unsafe {
                ::std::arch::asm!(
                    "mov {0}, qword ptr [rip + cox_preload_word@GOTTPOFF]",
                    "mov qword ptr fs:[{0}], {1}",
                    out(reg) _,
                    in(reg) word,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}
