//! Numbers that lie in columns, read as rows.
//!
//! Some formats keep all starts in one array, then all ends in another. A flush of a long run has millions of them;
//! instead of holding all of it, the first values of each array are kept and the place of the rest is noted. Once all
//! arrays of a flush are known, each gets its own window into the file and they are read side by side. A stream that
//! passes once leaves no choice: there the arrays are held.

use std::fs::File;
use std::sync::Arc;

use crate::{error::Fault, input::FileAt, json::Json, scanner::Scanner};

/// An array of numbers: its first values, and where the others are.
#[derive(Debug, Default)]
pub(crate) struct Column {
    head: Vec<f64>,
    rest: Option<(Arc<File>, u64)>,
}

impl Column {
    /// How many values are kept if the others can be read later.
    const KEPT: usize = 1 << 15;

    /// Takes the array that comes next. If that fails, `self` has the values up to there.
    pub(crate) fn take(&mut self, json: &mut Json, file: Option<&Arc<File>>) -> Result<(), Fault> {
        self.head.clear();
        self.rest = None;
        json.enter_array()?;
        let mut first = true;
        while json.element(&mut first)? {
            if let Some(file) = file
                && self.head.len() == Self::KEPT
            {
                json.peek_byte()?;
                self.rest = Some((Arc::clone(file), json.scanner.offset()));
                return json.skip_rest_of_array();
            }
            self.head.push(json.number()?);
        }
        Ok(())
    }

    /// Whether there is no value in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Reads the values in order.
    pub(crate) fn into_values(self) -> Values {
        let rest = self.rest.map(|(file, at)| Json::new(Scanner::at(Box::new(FileAt::new(file, at)), at)));
        Values { head: self.head.into_iter(), rest, first: true }
    }
}

/// The values of a [`Column`], one by one.
pub(crate) struct Values {
    head: std::vec::IntoIter<f64>,
    rest: Option<Json>,
    first: bool,
}

impl Values {
    /// The next value; `None` after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<f64>, Fault> {
        if let Some(value) = self.head.next() {
            return Ok(Some(value));
        }
        let Some(json) = &mut self.rest else { return Ok(None) };
        let value = match json.element(&mut self.first) {
            Ok(true) => json.number().map(Some),
            Ok(false) => Ok(None),
            Err(fault) => Err(fault),
        };
        // After the end or a fault there is nothing more to come.
        if !matches!(value, Ok(Some(_))) {
            self.rest = None;
        }
        value
    }
}
