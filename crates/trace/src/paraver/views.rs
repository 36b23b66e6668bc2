//! Configuration files for Paraver, one for each of the usual views of a trace that [`write`](super::write) wrote.
//!
//! The format is that of Paraver 3.4 and later, as its parser (`api/cfg.cpp` of paraver-kernel) accepts it: one line
//! per property of a window, then of a histogram. Windows and histograms refer to states and events by the numbers that
//! the `.pcf` declares.

use std::fmt::{self, Write};

use wire::Cause;

use super::{BLOCKED, COLOURS, MIGRATED, SAMPLED, SAMPLES};

/// Suffixes of the files' names.
pub const ENDINGS: [&str; 7] =
    ["states.cfg", "blocked.cfg", "cpus.cfg", "migrations.cfg", "samples.cfg", "profile.cfg", "durations.cfg"];

/// Returns the text of each file, in the order of [`ENDINGS`].
#[must_use]
pub fn views() -> [String; 7] {
    let last = BLOCKED + Cause::ALL.len() as u32 - 1;
    let all: Vec<u32> =
        COLOURS.iter().map(|(_, state, _)| *state).filter(|state| *state > 0).chain(BLOCKED..=last).collect();
    let window = |name, thread| Window { name, thread, ..Window::default() };
    let event = |name, event| Window { event: Some(event), ..window(name, "Last Evt Val") };
    let states = window("Thread states", "State As Is");
    let blocked = Window { name: "Causes of blocking", range: Some((BLOCKED, last)), ..states.clone() };
    let cpus = Window { gradient: true, ..window("CPU of each thread", "Cpu ID") };
    let lengths = Window { states: &all, gradient: true, ..window("Lengths of states", "State Record Dur.") };
    let times = Histogram { name: "Time by state", statistic: "Time", columns: (0, last, 1), scale: false };
    let name = "Lengths of states by thread";
    let numbers = Histogram { name, statistic: "# Bursts", columns: (1, 1000, 1), scale: true };
    [
        configuration("What each thread does: it runs, waits for a CPU, or is blocked.", &states, None),
        configuration(
            "Causes of blocking: what each blocked thread waits for. Threads that are not blocked are not shown.",
            &blocked,
            None,
        ),
        configuration("The CPU that each thread runs on; none while it does not run.", &cpus, None),
        configuration(
            "The CPU to which each thread migrated last; flags mark the migrations.",
            &event("Migrations", MIGRATED),
            None,
        ),
        configuration(
            "What the thread did at the last sample: work, spinning, or a futex system call. Spinning is divided by what the thread waits for. Nothing is known about the time between two samples.",
            &event(SAMPLES, SAMPLED),
            None,
        ),
        configuration("Time that each thread spent in each state.", &states, Some(&times)),
        configuration(
            "How long states lasted: for each thread, the number of intervals of each length. To choose the states, change the window’s semantic function for threads.",
            &lengths,
            Some(&numbers),
        ),
    ]
}

/// A timeline with one line per thread.
#[derive(Clone, Default)]
struct Window<'w> {
    name: &'w str,
    /// Paraver's semantic function for a thread's records.
    thread: &'w str,
    /// Argument of Paraver's semantic function: the states that it evaluates. Empty if the function takes no argument.
    states: &'w [u32],
    /// The range of values to show; other values are not shown.
    range: Option<(u32, u32)>,
    /// If given, the timeline uses events of this type only, and marks them by flags.
    event: Option<u32>,
    /// Whether the values are amounts, shown as a gradient. Otherwise they are codes, each shown in a colour of its
    /// own.
    gradient: bool,
}

/// A table that is computed from a timeline, with one row per thread.
struct Histogram<'h> {
    name: &'h str,
    statistic: &'h str,
    /// First value, last value and step.
    columns: (u32, u32, u32),
    /// Whether Paraver chooses the columns from the data.
    scale: bool,
}

fn configuration(description: &str, of: &Window, histogram: Option<&Histogram>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, description, of, histogram);
    out
}

fn write(out: &mut String, description: &str, of: &Window, histogram: Option<&Histogram>) -> fmt::Result {
    writeln!(out, "#ParaverCFG\nConfigFile.Version: 3.4\nConfigFile.NumWindows: 1")?;
    writeln!(out, "ConfigFile.BeginDescription\n{description}\nConfigFile.EndDescription")?;
    window(out, of, histogram.is_none())?;
    histogram.map_or(Ok(()), |of| table(out, of))
}

fn window(out: &mut String, of: &Window, open: bool) -> fmt::Result {
    let line = "#".repeat(80);
    writeln!(out, "\n{line}\n< NEW DISPLAYING WINDOW {} >\n{line}", of.name)?;
    writeln!(out, "window_name {}\nwindow_type single\nwindow_id 1", of.name)?;
    writeln!(out, "window_position_x 100\nwindow_position_y 100\nwindow_width 900\nwindow_height 300")?;
    writeln!(out, "window_comm_lines_enabled false\nwindow_flags_enabled {}", of.event.is_some())?;
    let mode = if of.gradient { "window_in_null_gradient_mode" } else { "window_in_code_mode" };
    writeln!(out, "window_noncolor_mode true\nwindow_color_mode {mode}\nwindow_units Microseconds")?;
    let most = BLOCKED as usize + Cause::ALL.len();
    writeln!(out, "window_maximum_y {most}.0\nwindow_minimum_y 0.0\nwindow_compute_y_max {}", of.gradient)?;
    writeln!(out, "window_level thread\nwindow_scale_relative 1.0\nwindow_end_time_relative 1.0")?;
    writeln!(out, "window_object appl {{ 1, {{ All }} }}\nwindow_begin_time_relative 0.0\nwindow_open {open}")?;
    writeln!(out, "window_drawmode draw_randnotzero\nwindow_drawmode_rows draw_randnotzero")?;
    writeln!(out, "window_pixel_size 1\nwindow_labels_to_draw 1")?;
    let event = if of.event.is_some() { "=" } else { "All" };
    writeln!(
        out,
        "window_selected_functions {{ 14, {{ {{cpu, Active Thd}}, {{appl, Adding}}, {{task, Adding}}, {{thread, {}}}, {{node, Adding}}, \
         {{system, Adding}}, {{workload, Adding}}, {{from_obj, All}}, {{to_obj, All}}, {{tag_msg, All}}, {{size_msg, All}}, {{bw_msg, All}}, \
         {{evt_type, {event}}}, {{evt_value, All}} }} }}",
        of.thread
    )?;
    let range = if of.range.is_some() { "Select Range" } else { "As Is" };
    writeln!(
        out,
        "window_compose_functions {{ 9, {{ {{compose_cpu, As Is}}, {{compose_appl, As Is}}, {{compose_task, As Is}}, {{compose_thread, {range}}}, \
         {{compose_node, As Is}}, {{compose_system, As Is}}, {{compose_workload, As Is}}, {{topcompose1, As Is}}, {{topcompose2, As Is}} }} }}"
    )?;
    if !of.states.is_empty() {
        let states: Vec<String> = of.states.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "window_semantic_module thread {} {{ 1, {{ {} {} }} }}",
            of.thread,
            states.len(),
            states.join(" ")
        )?;
    }
    if let Some((least, most)) = of.range {
        // The upper end of the range comes first.
        writeln!(out, "window_semantic_module compose_thread Select Range {{ 2, {{ 1 {most}, 1 {least} }} }}")?;
    }
    of.event.map_or(Ok(()), |event| writeln!(out, "window_filter_module evt_type 1 {event}"))
}

fn table(out: &mut String, of: &Histogram) -> fmt::Result {
    let (least, most, step) = of.columns;
    let scale = if of.scale { "True" } else { "False" };
    writeln!(out, "\n< NEW ANALYZER2D >\nAnalyzer2D.Name: {}", of.name)?;
    writeln!(out, "Analyzer2D.X: 120\nAnalyzer2D.Y: 450\nAnalyzer2D.Width: 900\nAnalyzer2D.Height: 350")?;
    writeln!(out, "Analyzer2D.ControlWindow: 1\nAnalyzer2D.DataWindow: 1\nAnalyzer2D.Accumulator: Semantic")?;
    writeln!(out, "Analyzer2D.Statistic: {}\nAnalyzer2D.CalculateAll: True\nAnalyzer2D.HideCols: True", of.statistic)?;
    writeln!(out, "Analyzer2D.HorizVert: Horizontal\nAnalyzer2D.Color: True\nAnalyzer2D.SemanticColor: False")?;
    writeln!(out, "Analyzer2D.Zoom: {}", if of.scale { "Enabled" } else { "Disabled" })?;
    writeln!(out, "Analyzer2D.SortCols: False\nAnalyzer2D.SortCriteria: Average")?;
    writeln!(out, "Analyzer2D.AnalysisLimits: Allwindow\nAnalyzer2D.ComputeYScale: {scale}")?;
    writeln!(out, "Analyzer2D.Minimum: {least}.0\nAnalyzer2D.Maximum: {most}.0\nAnalyzer2D.Delta: {step}.0")?;
    writeln!(out, "Analyzer2D.ComputeGradient: True\nAnalyzer2D.PixelSize: 1\nAnalyzer2D.CodeColor: False")?;
    writeln!(out, "Analyzer2D.ShowOnlyTotals: False\nAnalyzer2D.ShortHeaderLabels: True")
}
