//! Jobs that have a text in their id, name or command, among a million others.
//!
//! A text that many jobs have is soon found by looking at the latest ones; one that few have, by its letters, of which the database has an index by
//! threes. Which of the two it is, and which letters are rare, the latest jobs tell.

use rusqlite::{Connection, Row, params_from_iter};

use super::Query;

/// Jobs that are looked at first: a millisecond or two.
const FIRST: usize = 2000;
/// Jobs that are looked at if that gives all that are wanted, as far as the first ones tell: some 20 ms.
const MOST: usize = 40_000;
/// Letters that are looked up: the rarest. Each one more leaves fewer jobs to look at, and takes as long as there are jobs that have it.
const N_THREES: usize = 2;

/// The jobs, the latest first: at most as many as the query wants.
pub fn numbers(db: &Connection, query: &Query, text: &str) -> rusqlite::Result<Vec<i64>> {
    let mut seen = Seen::new(text);
    let mut found = Vec::new();
    if walk(db, query, None, MOST, &mut seen, &mut found)? {
        return Ok(found);
    }
    // Without three letters, all jobs are looked at.
    let letters = seen.rarest();
    found.clear();
    let mut all = Seen { first: usize::MAX, ..Seen::new(text) };
    walk(db, query, letters, usize::MAX, &mut all, &mut found)?;
    Ok(found)
}

/// Looks at jobs; returns whether what was found is all there is, or all that is wanted.
fn walk(
    db: &Connection,
    query: &Query,
    letters: Option<String>,
    most: usize,
    seen: &mut Seen<'_>,
    found: &mut Vec<i64>,
) -> rusqlite::Result<bool> {
    let (sql, values) = query.sql("job, id, name, command, start_ns", letters, most);
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while found.len() < query.limit {
        let Some(row) = rows.next()? else { return Ok(seen.n < most) };
        if seen.look(row)? {
            found.push(row.get(0)?);
        }
        // As many as can be expected to be there of the others.
        if seen.n == seen.first && found.len().saturating_mul(most) < query.limit.saturating_mul(seen.n) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What was seen of the jobs that were looked at.
struct Seen<'a> {
    text: &'a str,
    n: usize,
    /// So many are looked at before it is decided how to go on.
    first: usize,
    /// Each three letters that follow each other in the text, and how many of the first jobs have them.
    threes: Vec<(&'a str, u32)>,
}

impl<'a> Seen<'a> {
    fn new(text: &'a str) -> Self {
        const MOST_THREES: usize = 16;
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let threes = starts.windows(4).map(|at| (&text[at[0]..at[3]], 0));
        let threes = threes.filter(|(three, _)| !three.contains('\0')).take(MOST_THREES).collect();
        Self { text, n: 0, first: FIRST, threes }
    }

    /// Looks at a job; says whether it has the text.
    fn look(&mut self, row: &Row<'_>) -> rusqlite::Result<bool> {
        self.n += 1;
        let mut has_text = false;
        for column in [1, 2, 3] {
            let said = row.get_ref(column)?.as_str()?;
            has_text |= said.contains(self.text);
            // One in eight tells as much.
            if self.n <= self.first && self.first == FIRST && self.n.is_multiple_of(8) {
                self.threes.iter_mut().for_each(|(three, n)| *n += u32::from(said.contains(*three)));
            }
        }
        Ok(has_text)
    }

    /// What asks the table of letters for jobs that may have the text. `None` if it has no three letters.
    fn rarest(mut self) -> Option<String> {
        self.threes.sort_by_key(|(_, n)| *n);
        let quote = |(three, _): &(&str, u32)| format!("\"{}\"", three.replace('"', "\"\""));
        let quoted: Vec<String> = self.threes.iter().take(N_THREES).map(quote).collect();
        (!quoted.is_empty()).then(|| quoted.join(" AND "))
    }
}
