//! The formats, by name.

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A table of events or of bandwidth over time, values separated by commas.
    Csv,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: &[Format] = &[Format::Csv];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
        }
    }

    /// The format of that name, as [`Format::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
