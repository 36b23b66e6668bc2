//! Classes of causes: their order, colours and marks, and their words in legends.

use super::super::plot;
use crate::markup::{Markup, Safe};
use crate::noise::Cause;

/// Shape of a mark. Classes whose colours are close differ in shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Round,
    Square,
    Diamond,
    Up,
    Down,
}

/// A class of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    /// Its name in the document.
    name: &'static str,
    /// Its words in legends.
    pub words: &'static str,
    /// CSS class.
    pub css: &'static str,
    shape: Shape,
}

const fn class(name: &'static str, words: &'static str, css: &'static str, shape: Shape) -> Class {
    Class { name, words, css, shape }
}

/// All classes, in the order of bars and legends.
pub(super) const CLASSES: [Class; 12] = [
    class("tick", "timer tick", "n-tick", Shape::Round),
    class("timer", "other timers", "n-timer", Shape::Diamond),
    class("device", "devices", "n-device", Shape::Square),
    class("softirq", "softirqs", "n-softirq", Shape::Up),
    class("ipi", "interrupts by other CPUs", "n-ipi", Shape::Down),
    class("page fault", "page faults", "n-fault", Shape::Round),
    class("thread", "other threads", "n-thread", Shape::Square),
    class("kworker", "work items of the kernel", "n-kworker", Shape::Up),
    class("other interrupt", "other interrupts", "n-other", Shape::Down),
    class("outside", "outside this kernel", "n-outside", Shape::Diamond),
    UNKNOWN,
    class("entry", "entry and exit, not covered by events", "n-entry", Shape::Square),
];

/// The class of causes that are not known.
const UNKNOWN: Class = class("unknown", "unknown", "n-unknown", Shape::Round);

/// Returns the class with this name.
pub(super) fn named(name: &str) -> Class {
    CLASSES.into_iter().find(|class| class.name == name).unwrap_or(UNKNOWN)
}

/// Returns the class of a cause, by its index.
pub(super) fn of(causes: &[Cause], cause: u32) -> Class {
    causes.get(cause as usize).map_or(UNKNOWN, |cause| named(&cause.class))
}

/// Returns the place of a class in [`CLASSES`].
pub(super) fn place(class: Class) -> usize {
    CLASSES.iter().position(|known| *known == class).unwrap_or(0)
}

/// Returns the classes that `is_used` accepts, in their order.
pub(super) fn used(is_used: impl Fn(Class) -> bool) -> Vec<Class> {
    CLASSES.into_iter().filter(|class| is_used(*class)).collect()
}

/// Writes the legend of bars.
pub(super) fn legend(out: &mut Markup, classes: &[Class]) {
    plot::legend(out, &classes.iter().map(|class| (class.css, class.words)).collect::<Vec<_>>());
}

/// Writes the legend of marks.
pub(super) fn legend_of_marks(out: &mut Markup, classes: &[Class]) {
    out.push_str("<ul class=\"legend\">");
    for class in classes {
        write!(out, "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\" class=\"bare {}\">", class.css);
        class.mark(out, (6.0, 6.0), 5.0, "");
        write!(out, "</svg>{}</li>", Safe(class.words));
    }
    out.push_str("</ul>\n");
}

impl Class {
    /// Writes a mark around a point. `title`: what is shown when one points at it.
    pub(super) fn mark(&self, out: &mut Markup, (x, y): (f64, f64), size: f64, title: &str) {
        let long = size * 2.0;
        match self.shape {
            Shape::Round => write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size:.1}\""),
            Shape::Square => {
                let (left, top) = (x - size * 0.9, y - size * 0.9);
                let side = size * 1.8;
                write!(out, "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side:.1}\" height=\"{side:.1}\"");
            }
            Shape::Diamond => {
                write!(
                    out,
                    "<path d=\"M{x:.1} {:.1}l{size:.1} {size:.1}l-{size:.1} {size:.1}l-{size:.1} -{size:.1}z\"",
                    y - size
                );
            }
            Shape::Up => write!(out, "<path d=\"M{x:.1} {:.1}l{size:.1} {long:.1}h-{long:.1}z\"", y - size),
            Shape::Down => write!(out, "<path d=\"M{x:.1} {:.1}l{size:.1} -{long:.1}h-{long:.1}z\"", y + size),
        }
        if title.is_empty() {
            out.push_str("/>");
        } else {
            writeln!(out, "><title>{}</title></{}>", Safe(title), self.element());
        }
    }

    fn element(&self) -> &'static str {
        match self.shape {
            Shape::Round => "circle",
            Shape::Square => "rect",
            Shape::Diamond | Shape::Up | Shape::Down => "path",
        }
    }
}
