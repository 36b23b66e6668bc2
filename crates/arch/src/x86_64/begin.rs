//! The first instructions of a process that shares memory with its parent.

/// Defines `clone_and_begin(arguments, bytes)`, which calls clone3 with these arguments and returns its result. The new process does not return: it does
/// what execve(2) would have done, and starts the program that `$first` describes, the structure at the end of the stack in `arguments`. Its fields are
/// `stack_pointer`, `entry`, `host`, `mask`, `gs_base` (u64), `close` ([u64; 2], begin and end of a list of descriptors), `prepare` (u64, the address of a function that is called before
/// the program, on its stack and without thread-local storage; 0: none), `with` ([u64; 2], its arguments) and `name` ([u8; 16]). The crate that uses the macro needs `libc`.
#[macro_export]
macro_rules! process_begin {
    ($first:ty) => {
        /// Calls clone3. The new process begins in `begin`, with its stack pointer at a `First`.
        ///
        /// # Safety
        /// `arguments` must describe a process with a stack that ends at a `First`.
        #[unsafe(naked)]
        unsafe extern "C" fn clone_and_begin(arguments: *const ::libc::clone_args, bytes: usize) -> i64 {
            ::std::arch::naked_asm!(
                "mov eax, {clone3}",
                "syscall",
                "test rax, rax",
                "jz {begin}",
                "ret",
                clone3 = const ::libc::SYS_clone3,
                begin = sym begin,
            )
        }

        /// The first instructions of a new process: it dies with the host from now on, gets its name, and starts the program.
        ///
        /// The stack pointer points to a `First`. Only system calls, and no stack but that of the program: memory is the host's.
        #[unsafe(naked)]
        unsafe extern "C" fn begin() {
            ::std::arch::naked_asm!(
                // prctl(PR_SET_PDEATHSIG, SIGKILL)
                "mov eax, {prctl}",
                "mov edi, {deathsig}",
                "mov esi, {kill}",
                "syscall",
                // The host may have died before.
                "mov eax, {getppid}",
                "syscall",
                "cmp rax, [rsp + {host}]",
                "jne 2f",
                // close(2) of the host's files; an error is of no interest.
                "mov rbx, [rsp + {files}]",
                "mov r12, [rsp + {files} + 8]",
                "3:",
                "cmp rbx, r12",
                "jae 4f",
                "mov eax, {close}",
                "mov edi, [rbx]",
                "syscall",
                "add rbx, 4",
                "jmp 3b",
                "4:",
                // arch_prctl(ARCH_SET_GS, gs_base)
                "mov eax, {arch_prctl}",
                "mov edi, 0x1001",
                "mov rsi, [rsp + {gs_base}]",
                "syscall",
                // prctl(PR_SET_NAME, name)
                "mov eax, {prctl}",
                "mov edi, {set_name}",
                "lea rsi, [rsp + {name}]",
                "syscall",
                "mov rax, [rsp + {prepare}]",
                "test rax, rax",
                "jz 5f",
                "mov rdi, [rsp + {with}]",
                "mov rsi, [rsp + {with} + 8]",
                "call rax",
                "5:",
                // rt_sigprocmask(SIG_SETMASK, mask): only now a signal may end the program, under its own name.
                "mov eax, {sigprocmask}",
                "mov edi, {set_mask}",
                "lea rsi, [rsp + {mask}]",
                "xor edx, edx",
                "mov r10d, 8",
                "syscall",
                "mov rcx, [rsp + {entry}]",
                "mov rsp, [rsp + {stack_pointer}]",
                // The program must not find what the host left in registers; rdx would be a function to call at its end (System V ABI).
                "xor eax, eax",
                "xor ebx, ebx",
                "xor edx, edx",
                "xor esi, esi",
                "xor edi, edi",
                "xor ebp, ebp",
                "xor r8d, r8d",
                "xor r9d, r9d",
                "xor r10d, r10d",
                "xor r12d, r12d",
                "xor r13d, r13d",
                "xor r14d, r14d",
                "xor r15d, r15d",
                "jmp rcx",
                "2:",
                "mov eax, {exit}",
                "mov edi, 137",
                "syscall",
                "ud2",
                prctl = const ::libc::SYS_prctl,
                deathsig = const ::libc::PR_SET_PDEATHSIG,
                kill = const ::libc::SIGKILL,
                getppid = const ::libc::SYS_getppid,
                set_name = const ::libc::PR_SET_NAME,
                exit = const ::libc::SYS_exit_group,
                sigprocmask = const ::libc::SYS_rt_sigprocmask,
                set_mask = const ::libc::SIG_SETMASK,
                mask = const ::std::mem::offset_of!($first, mask),
                arch_prctl = const ::libc::SYS_arch_prctl,
                gs_base = const ::std::mem::offset_of!($first, gs_base),
                close = const ::libc::SYS_close,
                files = const ::std::mem::offset_of!($first, close),
                host = const ::std::mem::offset_of!($first, host),
                prepare = const ::std::mem::offset_of!($first, prepare),
                with = const ::std::mem::offset_of!($first, with),
                name = const ::std::mem::offset_of!($first, name),
                entry = const ::std::mem::offset_of!($first, entry),
                stack_pointer = const ::std::mem::offset_of!($first, stack_pointer),
            )
        }
    };
}
