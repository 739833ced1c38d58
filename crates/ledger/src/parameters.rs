//! Parameters of a run, in numbers.

/// The parameters of a run that its user names (`IOTIDE_PARAMS="nx=512,steps=10"`), in the order of their names.
///
/// Anything that is not a parameter is left out: a name is a letter or `_` followed by letters, digits and `_`, at most 32 in all; a value is a finite number.
/// `size` is the number of processes and cannot be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters(Box<str>);

impl Parameters {
    /// The parameter that every run has: the number of its processes.
    pub const SIZE: &'static str = "size";
    /// More are left out.
    const MOST: usize = 8;
    const LONGEST_NAME: usize = 32;

    /// Returns the parameters in a text: `name=value`, with commas, semicolons or blanks between.
    pub fn read(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut found = std::collections::BTreeMap::new();
        for part in text.split(|c: char| c == ',' || c == ';' || c.is_whitespace()) {
            let Some((name, value)) = part.split_once('=') else { continue };
            let value = value.parse::<f64>().ok().filter(|value| value.is_finite());
            if let Some(value) = value
                && is_name(name)
                && found.len() < Self::MOST
            {
                found.insert(name, value);
            }
        }
        let pairs: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        Self(pairs.join(",").into())
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.split(',').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name, value.parse().ok()?))
        })
    }

    /// As [`Parameters::read`] reads it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name(name: &str) -> bool {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    begins_well && goes_on_well && name.len() <= Parameters::LONGEST_NAME && name != Parameters::SIZE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_parameter_is_left_out() {
        let read = |text: &str| Parameters::read(text.as_bytes()).as_str().to_owned();
        assert_eq!(read("nx=512"), "nx=512.0");
        assert_eq!(
            read("steps=10, nx=5e2;mode=fast size=7 1a=3 x=inf y=nan =4 z= a=1=2"),
            "nx=500.0,steps=10.0"
        );
        assert_eq!(read("a=1,a=2"), "a=2.0");
        let many: String = (0..100).map(|i| format!("p{i}=1,")).collect();
        assert_eq!(Parameters::read(many.as_bytes()).iter().count(), Parameters::MOST);
    }

    proptest! {
        #[test]
        fn what_was_read_reads_the_same_again(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "([a-z]{1,3}=-?[0-9.e]{1,6}[, ;]){0,12}") {
            for input in [bytes.as_slice(), text.as_bytes()] {
                let once = Parameters::read(input);
                prop_assert_eq!(&Parameters::read(once.as_str().as_bytes()), &once);
                prop_assert_eq!(once.iter().count(), once.as_str().split(',').filter(|pair| !pair.is_empty()).count());
            }
        }
    }
}
