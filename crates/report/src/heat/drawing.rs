//! The table as a [`Matrix`].

use super::{Cell, Heat, Value};
use crate::comparison::WALL;
use crate::comparison::words::amount;
use crate::matrix::{self, Matrix, Place};

/// Width of the place for the names of applications, pixels.
const LEFT: usize = 170;

impl Heat {
    /// Returns the drawing as a file.
    pub fn svg(&self) -> String {
        self.matrix().svg()
    }

    pub(crate) fn drawn(&self, place: Place) -> String {
        self.matrix().drawn(place)
    }

    fn matrix(&self) -> Matrix {
        let row = |(row, name): (usize, &String)| matrix::Row {
            name: name.clone(),
            cells: (0..self.columns.len()).map(|column| self.coloured(self.cell(row, column))).collect(),
        };
        Matrix {
            title: format!("{} (wall time below)", self.title()),
            left: LEFT,
            columns: self.columns.clone(),
            rows: self.rows.iter().enumerate().map(row).collect(),
        }
    }

    fn coloured(&self, cell: Option<&Cell>) -> matrix::Cell {
        let (heat, line, says) = match cell.map(|cell| cell.value) {
            Some(Value::Median(median)) => (Some(self.heat(median)), amount(&self.figure, median), None),
            Some(Value::Undefined { runs, of }) => {
                let of = if of == 1 { "the only run".to_owned() } else { format!("{runs} of {of} runs") };
                let why = format!("{}: not defined in {of}, because the divisor is 0", self.title());
                (None, "not defined".to_owned(), Some(why))
            }
            None => (None, "no runs".to_owned(), None),
        };
        let wall = cell.and_then(|cell| cell.wall_ns).map(|wall| format!("({})", amount(WALL, wall)));
        matrix::Cell { heat, lines: [Some(line), wall].into_iter().flatten().collect(), says }
    }
}
