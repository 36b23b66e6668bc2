//! Nests what interrupts a running thread on one CPU, and computes net times.
//!
//! A context that ends without a begin was entered before the thread was followed: it is ignored. A context that begins and does not end lost its
//! end: it is dropped when an outer context ends, or at the next switch.

use wire::noise::{Vector, edge, kind};

use crate::cause::Cause;
use crate::interval::Span;

/// What a CPU executes at the moment on top of a thread, the innermost context last.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    stack: Vec<Context>,
}

#[derive(Debug)]
struct Context {
    kind: u8,
    a: u64,
    begin_ns: u64,
    /// Time of contexts within this one that count apart.
    within_ns: u64,
    /// What the context is charged to; `None`: not known yet, and given by `kind` and `a` at the end.
    cause: Option<Cause>,
}

impl Contexts {
    /// Begins a context. `cause` is known if the event says it.
    pub(crate) fn begin(&mut self, kind: u8, a: u64, t_ns: u64, cause: Option<Cause>) {
        self.stack.push(Context { kind, a, begin_ns: t_ns, within_ns: 0, cause });
    }

    /// Returns whether the CPU executes calls that other CPUs have requested. Outside of that, a call is made by the thread itself, which asks all CPUs
    /// including its own.
    pub(crate) fn answers_calls(&self) -> bool {
        self.stack.last().is_some_and(|context| is_named_by(context, kind::CALL))
    }

    /// Ends a context. Returns its span and cause, unless it counts as a part of the context around it.
    pub(crate) fn end(&mut self, kind: u8, a: u64, t_ns: u64) -> Option<(Span, Cause)> {
        // The ends of timers and calls do not say their function.
        let names_itself = matches!(kind, kind::VECTOR | kind::IRQ | kind::SOFTIRQ);
        let is_it = |context: &Context| context.kind == kind && (!names_itself || context.a == a);
        let at = self.stack.iter().rposition(is_it)?;
        self.stack.truncate(at + 1);
        let context = self.stack.pop()?;
        let gross_ns = t_ns.saturating_sub(context.begin_ns);
        let cause = context.cause.unwrap_or_else(|| default_cause(context.kind, context.a));
        let outermost = self.stack.is_empty();
        if let Some(around) = self.stack.last_mut() {
            if is_named_by(around, context.kind) {
                let named = around.cause.get_or_insert_with(|| cause.clone());
                if *named == cause {
                    around.within_ns += context.within_ns;
                    return None;
                }
            }
            around.within_ns += gross_ns;
        }
        let inside_ns = gross_ns.saturating_sub(context.within_ns);
        Some((Span { begin_ns: context.begin_ns, end_ns: t_ns, inside_ns, outermost }, cause))
    }

    /// A point within a context, of known length: the context around it loses this time. Returns its span.
    pub(crate) fn point(&mut self, t_ns: u64, length_ns: u64) -> Span {
        if let Some(around) = self.stack.last_mut() {
            around.within_ns += length_ns;
        }
        let outermost = self.stack.is_empty();
        Span { begin_ns: t_ns.saturating_sub(length_ns), end_ns: t_ns, inside_ns: length_ns, outermost }
    }

    /// The CPU switches to another thread, which happens outside all contexts.
    pub(crate) fn clear(&mut self) {
        self.stack.clear();
    }
}

/// Returns whether the first context of this kind within `around` says what `around` is for: the function of a timer's interrupt, or of a call by
/// another CPU.
fn is_named_by(around: &Context, inner: u8) -> bool {
    let vector = (around.kind == kind::VECTOR).then(|| Vector::of(around.a)).flatten();
    match vector {
        Some(Vector::LocalTimer) => inner == kind::HRTIMER,
        Some(Vector::CallFunction | Vector::CallFunctionSingle) => inner == kind::CALL,
        _ => false,
    }
}

fn default_cause(kind: u8, a: u64) -> Cause {
    match kind {
        kind::IRQ => Cause::Irq(a as u32),
        kind::SOFTIRQ => Cause::Softirq(a as u32),
        kind::HRTIMER => Cause::Timer { function: a },
        kind::TIMER => Cause::SoftTimer { function: a },
        kind::CALL => Cause::Call { function: a, sender: None },
        _ => Cause::Vector(Vector::of(a).unwrap_or(Vector::Spurious)),
    }
}

/// Returns whether an event is the begin or the end of a context.
pub(crate) fn is_context(event: &wire::noise::Event) -> bool {
    (kind::VECTOR..=kind::CALL).contains(&event.kind) && event.edge != edge::POINT
}
