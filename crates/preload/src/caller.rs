//! Doors whose caller has to be known, and doors that must not look at what is carried through: in assembly,
//! since only that sees the return address and leaves arguments of any number where they are.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the doors are written for x86-64 only");

/// Defines interposed functions of one argument or none: `$inner` has their argument, whatever it is, and
/// their return address.
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!("mov rsi, [rsp]", "jmp {inner}", inner = sym $inner)
        }
    )* };
}
pub(crate) use with_caller;

/// Asks `{inner}`, which has the first of any integer arguments, if there is one, and the return address, where to go on, and goes there
/// with all arguments as they came.
macro_rules! by_way {
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
pub(crate) use by_way;

/// Defines interposed functions of any integer arguments: `$inner` has the first of them, if there is one, and their
/// return address, and says where to go on, with all arguments as they came.
macro_rules! by_way_of {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!($crate::caller::by_way!(), inner = sym $inner)
        }
    )* };
}
pub(crate) use by_way_of;

/// The same, but that they lead to `$ours` at once in regions whose tasks are ours ([`here`](crate::overlap::here)).
macro_rules! ours_or_by_way_of {
    ($($(#[$doc:meta])* $name:ident => $ours:path, else $inner:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            // No argument is in rax.
            std::arch::naked_asm!(
                "mov rax, qword ptr [rip + cox_preload_worker@GOTTPOFF]",
                "mov rax, qword ptr fs:[rax]",
                "test rax, rax",
                "jz 2f",
                "cmp qword ptr [rax + {team}], 0",
                "jne {ours}",
                "2:",
                $crate::caller::by_way!(),
                team = const tasks::worker::TEAM_AT,
                ours = sym $ours,
                inner = sym $inner,
            )
        }
    )* };
}
pub(crate) use ours_or_by_way_of;

/// Defines an interposed function that goes where `$place` says.
macro_rules! by_place {
    ($($(#[$doc:meta])* $name:ident => $place:path;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!("jmp qword ptr [rip + {place}]", place = sym $place)
        }
    )* };
}
pub(crate) use by_place;
