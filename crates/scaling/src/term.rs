//! `c · p^(i/j) · log₂(p)^k`: evaluated and printed.

use std::fmt::{self, Write};

/// An exponent, kept as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exponent {
    numerator: i64,
    denominator: i64,
}

impl Exponent {
    /// Nought.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// Returns `numerator / denominator` in lowest terms; a denominator of 0 counts as 1.
    pub const fn new(numerator: i64, denominator: i64) -> Self {
        let (mut a, mut b) = (numerator.unsigned_abs(), denominator.unsigned_abs());
        if b == 0 {
            return Self { numerator, denominator: 1 };
        }
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let sign = if denominator < 0 { -1 } else { 1 };
        Self { numerator: sign * numerator / a as i64, denominator: sign * denominator / a as i64 }
    }

    /// Returns the fraction nearest to a number among those with denominators up to 1000.
    pub fn nearest(x: f64) -> Self {
        (1..=1000)
            .map(|denominator| Self::new((x * denominator as f64).round() as i64, denominator))
            .find(|fraction| (fraction.value() - x).abs() <= 1e-9 * x.abs().max(1.0))
            .unwrap_or_else(|| Self::new((x * 1000.0).round() as i64, 1000))
    }

    /// Returns the exponent as a number.
    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Returns what stands above the bar.
    pub fn numerator(self) -> i64 {
        self.numerator
    }

    /// Returns what stands below the bar.
    pub fn denominator(self) -> i64 {
        self.denominator
    }

    /// Whether it is nought.
    pub fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Returns the fraction between two others that has the least denominator of those made this way (Stern–Brocot).
    pub fn mediant(self, other: Self) -> Self {
        Self::new(self.numerator + other.numerator, self.denominator + other.denominator)
    }

    /// Reads `5/4`, `2` or `0.25`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some((numerator, denominator)) = text.split_once('/') {
            let (numerator, denominator): (i32, i32) =
                (numerator.trim().parse().ok()?, denominator.trim().parse().ok()?);
            return (denominator != 0).then(|| Self::new(numerator.into(), denominator.into()));
        }
        if let Ok(whole) = text.parse::<i32>() {
            return Some(Self::new(whole.into(), 1));
        }
        let number: f64 = text.parse().ok()?;
        (number.abs() < 1e6).then(|| Self::nearest(number))
    }
}

impl fmt::Display for Exponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

/// How one parameter enters a term: `p^power · log₂(p)^log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Exponent of the parameter.
    pub power: Exponent,
    /// Exponent of its logarithm to the base 2.
    pub log: Exponent,
}

impl Shape {
    /// Returns `p^(numerator/denominator) · log₂(p)^log`.
    pub const fn new(numerator: i64, denominator: i64, log: i64) -> Self {
        Self { power: Exponent::new(numerator, denominator), log: Exponent::new(log, 1) }
    }

    /// Returns its value at `x`.
    pub fn at(self, x: f64) -> f64 {
        let power = if self.power.is_zero() { 1.0 } else { x.powf(self.power.value()) };
        if self.log.is_zero() { power } else { power * x.log2().powf(self.log.value()) }
    }

    /// Whether the parameter does not enter at all.
    pub fn is_constant(self) -> bool {
        self.power.is_zero() && self.log.is_zero()
    }
}

/// One factor of a term.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// A power and a logarithm of one parameter.
    Smooth {
        /// Which parameter, as an index.
        parameter: usize,
        /// How it enters.
        shape: Shape,
    },
    /// Two functions of one parameter, one below and one above a change in behaviour.
    Piecewise(Box<Piecewise>),
}

/// Two functions of one parameter, one on each side of a change in behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct Piecewise {
    /// Which parameter, as an index.
    pub parameter: usize,
    /// The function up to `lower_end`; its own parameter index is that of the whole.
    pub lower: Function,
    /// Where the lower one ends.
    pub lower_end: f64,
    /// The function from `upper_start` on.
    pub upper: Function,
    /// Where the upper one starts; between the two nothing is known.
    pub upper_start: f64,
}

impl Piecewise {
    fn at(&self, coordinate: &[f64]) -> f64 {
        let x = coordinate[self.parameter];
        if x <= self.lower_end {
            self.lower.at(coordinate)
        } else if x >= self.upper_start {
            self.upper.at(coordinate)
        } else {
            f64::NAN
        }
    }
}

impl Factor {
    /// Returns its value at a point.
    pub fn at(&self, coordinate: &[f64]) -> f64 {
        match self {
            Factor::Smooth { parameter, shape } => shape.at(coordinate[*parameter]),
            Factor::Piecewise(pieces) => pieces.at(coordinate),
        }
    }

    /// Which parameter it is about.
    pub fn parameter(&self) -> usize {
        match self {
            Factor::Smooth { parameter, .. } => *parameter,
            Factor::Piecewise(pieces) => pieces.parameter,
        }
    }
}

/// A product of factors with a coefficient.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Coefficient that the factors are multiplied by.
    pub coefficient: f64,
    /// At most one per parameter.
    pub factors: Vec<Factor>,
}

impl Term {
    /// Returns its value at a point.
    pub fn at(&self, coordinate: &[f64]) -> f64 {
        self.factors.iter().fold(self.coefficient, |value, factor| value * factor.at(coordinate))
    }
}

/// A constant plus terms: the performance model normal form.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Function {
    /// Part that is the same at any scale.
    pub constant: f64,
    /// Parts that change with the parameters.
    pub terms: Vec<Term>,
}

impl Function {
    /// Returns a function that is the same everywhere.
    pub fn constant(value: f64) -> Self {
        Self { constant: value, terms: Vec::new() }
    }

    /// Returns `constant + coefficient · shape(parameter 0)`.
    pub fn of_one(constant: f64, coefficient: f64, shape: Shape) -> Self {
        Self {
            constant,
            terms: vec![Term { coefficient, factors: vec![Factor::Smooth { parameter: 0, shape }] }],
        }
    }

    /// Returns its value at a point.
    ///
    /// # Panics
    /// If the point has fewer coordinates than the function has parameters.
    pub fn at(&self, coordinate: &[f64]) -> f64 {
        self.terms.iter().fold(self.constant, |value, term| value + term.at(coordinate))
    }

    /// Whether every coefficient is a number.
    pub(crate) fn is_finite(&self) -> bool {
        self.constant.is_finite() && self.terms.iter().all(|term| term.coefficient.is_finite())
    }

    /// The same in units so many times smaller.
    pub(crate) fn times(mut self, unit: f64) -> Self {
        self.constant *= unit;
        self.terms.iter_mut().for_each(|term| term.coefficient *= unit);
        self
    }

    /// Whether no parameter enters.
    pub fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// Writes the function for people, as Extra-P does: `1.5 + 0.2 * p^(5/4) * log2(p)^(1)`.
    pub fn to_text(&self, parameters: &[impl AsRef<str>]) -> String {
        self.write(&TEXT, parameters)
    }

    /// Writes the function as a Python expression; it needs `from math import log2`.
    pub fn to_python(&self, parameters: &[impl AsRef<str>]) -> String {
        self.write(&PYTHON, parameters)
    }

    /// Writes the function as LaTeX, without the dollars, to four digits.
    pub fn to_latex(&self, parameters: &[impl AsRef<str>]) -> String {
        self.write(&LATEX, parameters)
    }

    /// Writes the function to be read: four digits, and no exponent of 1.
    pub fn to_readable(&self, parameters: &[impl AsRef<str>]) -> String {
        self.write(&READABLE, parameters)
    }

    /// Returns how it grows where every parameter is large: the term that is largest there, without its coefficient.
    ///
    /// ```
    /// use iotide_scaling::{Function, Shape};
    ///
    /// let of = |shape| Function::of_one(1.5, 0.2, shape).growth_class(&["p"]);
    /// assert_eq!(of(Shape::new(1, 1, 1)), "p · log2(p)");
    /// assert_eq!(of(Shape::new(-1, 1, 0)), "falls to a constant");
    /// ```
    pub fn growth_class(&self, parameters: &[impl AsRef<str>]) -> String {
        // The logarithm to the base 2 of a term's shape where every parameter is 2¹⁰⁰: beyond any crossing.
        const FAR: f64 = 100.0;
        let steepness = |term: &Term| -> f64 {
            let of = |factor: &Factor| match factor {
                Factor::Smooth { shape, .. } => shape.power.value() * FAR + shape.log.value() * FAR.log2(),
                Factor::Piecewise(_) => 0.0,
            };
            term.factors.iter().map(of).sum()
        };
        for term in &self.terms {
            if let [Factor::Piecewise(pieces)] = term.factors.as_slice() {
                return pieces.upper.growth_class(parameters);
            }
        }
        let grows = |term: &&Term| term.coefficient != 0.0 && steepness(term) > 0.0;
        let leading = self.terms.iter().filter(grows).max_by(|a, b| steepness(a).total_cmp(&steepness(b)));
        let Some(leading) = leading else {
            let falls = |term: &Term| steepness(term) < 0.0;
            return match self.terms.iter().find(|term| falls(term)) {
                Some(term) if term.coefficient > 0.0 => "falls to a constant".to_owned(),
                Some(term) if term.coefficient < 0.0 => "rises to a constant".to_owned(),
                _ => "constant".to_owned(),
            };
        };
        let shape = Function { constant: 0.0, terms: vec![Term { coefficient: 1.0, ..leading.clone() }] };
        let falls = if leading.coefficient < 0.0 { "falls as " } else { "" };
        format!("{falls}{}", shape.to_readable(parameters))
    }

    fn write(&self, form: &Form, parameters: &[impl AsRef<str>]) -> String {
        let mut parts = Vec::with_capacity(1 + self.terms.len());
        // A constant of exactly 0 and a coefficient of exactly 1 say nothing.
        if self.constant != 0.0 || self.terms.is_empty() {
            parts.push((form.number)(self.constant));
        }
        for term in &self.terms {
            let mut factors: Vec<String> = Vec::new();
            if term.coefficient != 1.0 || term.factors.is_empty() {
                factors.push((form.number)(term.coefficient));
            }
            for factor in &term.factors {
                let fallback = format!("x{}", factor.parameter() + 1);
                let name = parameters.get(factor.parameter()).map_or(fallback.as_str(), AsRef::as_ref);
                match factor {
                    Factor::Smooth { shape, .. } => (form.shape)(&mut factors, name, *shape),
                    Factor::Piecewise(pieces) => factors.push((form.pieces)(
                        &pieces.lower.write(form, parameters),
                        pieces.lower_end,
                        &pieces.upper.write(form, parameters),
                        pieces.upper_start,
                        name,
                    )),
                }
            }
            parts.push(factors.join(form.times));
        }
        let text = parts.join(" + ");
        if form.signed_terms { text } else { text.replace("+ -", "- ") }
    }
}

struct Form {
    number: fn(f64) -> String,
    times: &'static str,
    shape: fn(&mut Vec<String>, &str, Shape),
    pieces: fn(&str, f64, &str, f64, &str) -> String,
    /// Keep `+ -3` rather than `- 3`.
    signed_terms: bool,
}

const TEXT: Form = Form {
    number: shortest,
    times: " * ",
    shape: |factors, name, shape| {
        if !shape.power.is_zero() {
            factors.push(format!("{name}^({})", shape.power));
        }
        if !shape.log.is_zero() {
            factors.push(format!("log2({name})^({})", shape.log));
        }
    },
    pieces: |lower, lower_end, upper, upper_start, name| {
        format!(
            "{{{lower} for {name}<={}; {upper} for {name}>={}}}",
            shortest(lower_end),
            shortest(upper_start)
        )
    },
    signed_terms: true,
};

const READABLE: Form = Form {
    number: |x| {
        // As the shortest digits print, of the number to four digits.
        let rounded: f64 = format!("{x:.3e}").parse().unwrap_or(x);
        shortest(rounded).trim_end_matches(".0").to_owned()
    },
    times: " · ",
    shape: |factors, name, shape| {
        let raised = |base: String, exponent: Exponent| match exponent.denominator() {
            1 if exponent.numerator() == 1 => base,
            1 if exponent.numerator() > 0 => format!("{base}^{exponent}"),
            ..=4 => format!("{base}^({exponent})"),
            // 53/50 says less than 1.06.
            _ => format!("{base}^{}", shortest((exponent.value() * 1000.0).round() / 1000.0)),
        };
        if !shape.power.is_zero() {
            factors.push(raised(name.to_owned(), shape.power));
        }
        if !shape.log.is_zero() {
            factors.push(raised(format!("log2({name})"), shape.log));
        }
    },
    pieces: TEXT.pieces,
    signed_terms: false,
};

const PYTHON: Form = Form {
    number: shortest,
    times: " * ",
    shape: |factors, name, shape| {
        let name = python_name(name);
        if !shape.power.is_zero() {
            factors.push(format!("{name}**({})", shape.power));
        }
        if !shape.log.is_zero() {
            factors.push(format!("log2({name})**({})", shape.log));
        }
    },
    pieces: |lower, lower_end, upper, upper_start, name| {
        let (name, end, start) = (python_name(name), shortest(lower_end), shortest(upper_start));
        format!("(({lower}) if {name} <= {end} else ({upper}) if {name} >= {start} else float('nan'))")
    },
    signed_terms: false,
};

const LATEX: Form = Form {
    number: latex_number,
    times: r" \cdot ",
    shape: |factors, name, shape| {
        let name = latex_name(name);
        if !shape.power.is_zero() {
            let exponent =
                if shape.power.value() == 1.0 { String::new() } else { format!("^{{{}}}", shape.power) };
            factors.push(format!("{name}{exponent}"));
        }
        if !shape.log.is_zero() {
            let exponent =
                if shape.log.value() == 1.0 { String::new() } else { format!("^{{{}}}", shape.log) };
            factors.push(format!(r"\log_2{exponent}\left({name}\right)"));
        }
    },
    pieces: |lower, lower_end, upper, upper_start, name| {
        let (name, end, start) = (latex_name(name), latex_number(lower_end), latex_number(upper_start));
        format!(r"\begin{{cases}}{lower} & {name} \le {end} \\ {upper} & {name} \ge {start}\end{{cases}}")
    },
    signed_terms: false,
};

/// The shortest digits that give the number back, as Python prints them: `1e-06`, `0.5`, `30.0`, `1e+16`.
pub(crate) fn shortest(x: f64) -> String {
    if !x.is_finite() {
        return if x.is_nan() { "nan".into() } else { format!("{x}") };
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    } else {
        format!("{x:?}")
    }
}

fn latex_number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return shortest(x);
    }
    let rounded = format!("{x:.3e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-3..=3).contains(&exponent) {
        let mut text = String::new();
        let decimals = usize::try_from(3 - exponent).unwrap_or(0);
        let _ = write!(text, "{x:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    } else {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!(r"{digits} \times 10^{{{exponent}}}")
    }
}

/// A name that Python takes for one: `size (MB)` is `size_MB`.
fn python_name(name: &str) -> String {
    let words = name.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("_");
    let is_name = joined.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if is_name && !PYTHON_WORDS.contains(&joined.as_str()) { joined } else { format!("_{joined}") }
}

/// Words of the language, which no variable can have, and the function that the expressions call.
const PYTHON_WORDS: [&str; 36] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "log2", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

fn latex_name(name: &str) -> String {
    if name.chars().count() == 1 {
        return name.into();
    }
    let escaped = name
        .replace('\\', "")
        .replace(['{', '}', '$'], "")
        .replace('_', r"\_")
        .replace('%', r"\%")
        .replace('&', r"\&");
    format!(r"\mathrm{{{escaped}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_terms() -> Function {
        let smooth = |parameter, shape| Factor::Smooth { parameter, shape };
        Function {
            constant: 1.5,
            terms: vec![
                Term { coefficient: -2e-7, factors: vec![smooth(0, Shape::new(5, 4, 1))] },
                Term {
                    coefficient: 1.0,
                    factors: vec![smooth(0, Shape::new(1, 1, 0)), smooth(1, Shape::new(0, 1, 2))],
                },
            ],
        }
    }

    #[test]
    fn a_function_prints_in_three_tongues() {
        let names = ["p", "size"];
        let function = two_terms();
        assert_eq!(function.to_text(&names), "1.5 + -2e-07 * p^(5/4) * log2(p)^(1) + p^(1) * log2(size)^(2)");
        assert_eq!(
            function.to_python(&names),
            "1.5 - 2e-07 * p**(5/4) * log2(p)**(1) + p**(1) * log2(size)**(2)"
        );
        assert_eq!(
            function.to_latex(&names),
            r"1.5 - 2 \times 10^{-7} \cdot p^{5/4} \cdot \log_2\left(p\right) + p \cdot \log_2^{2}\left(\mathrm{size}\right)"
        );
    }

    #[test]
    fn a_function_is_readable_in_four_digits() {
        let readable = |constant: f64, coefficient: f64, shape| {
            Function::of_one(constant, coefficient, shape).to_readable(&["p"])
        };
        assert_eq!(readable(1.0 / 3.0, -123456.789, Shape::new(1, 1, 0)), "0.3333 - 123500 · p");
        assert_eq!(readable(0.0, 1e-7 / 3.0, Shape::new(53, 50, 2)), "3.333e-08 · p^1.06 · log2(p)^2");
        assert_eq!(readable(2e300, 30.0, Shape::new(-5, 4, 0)), "2e+300 + 30 · p^(-5/4)");
        assert_eq!(
            two_terms().to_readable(&["p", "size"]),
            "1.5 - 2e-07 · p^(5/4) · log2(p) + p · log2(size)^2"
        );
    }

    #[test]
    fn growth_is_that_of_the_term_that_wins_far_out() {
        assert_eq!(two_terms().growth_class(&["p", "size"]), "falls as p^(5/4) · log2(p)");
        assert_eq!(Function::constant(7.0).growth_class(&["p"]), "constant");
        let slow = Function::of_one(0.0, 5.0, Shape::new(0, 1, 1));
        assert_eq!(slow.growth_class(&["p"]), "log2(p)");
    }

    #[test]
    fn names_that_are_no_names_to_python_become_some() {
        let function = Function::of_one(0.0, 2.0, Shape::new(1, 1, 1));
        assert_eq!(function.to_python(&["size (MB)"]), "2.0 * size_MB**(1) * log2(size_MB)**(1)");
        assert_eq!(function.to_python(&["2d"]), "2.0 * _2d**(1) * log2(_2d)**(1)");
        assert_eq!(function.to_python(&["lambda"]), "2.0 * _lambda**(1) * log2(_lambda)**(1)");
    }

    #[test]
    fn a_function_is_evaluated_term_by_term() {
        assert_eq!(two_terms().at(&[16.0, 4.0]), 1.5 - 2e-7 * 32.0 * 4.0 + 16.0 * 4.0);
    }

    #[test]
    fn numbers_print_as_python_prints_them() {
        for (x, text) in [
            (0.5, "0.5"),
            (30.0, "30.0"),
            (1e-6, "1e-06"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (-1.25e-5, "-1.25e-05"),
            (0.0001, "0.0001"),
        ] {
            assert_eq!(shortest(x), text);
        }
    }

    #[test]
    fn exponents_are_fractions_in_lowest_terms() {
        assert_eq!(Exponent::new(4, -6).to_string(), "-2/3");
        assert_eq!(Exponent::new(0, 7), Exponent::ZERO);
        assert_eq!(Exponent::parse("0.25"), Some(Exponent::new(1, 4)));
        assert_eq!(Exponent::parse("5/4"), Some(Exponent::new(5, 4)));
        assert_eq!(Exponent::parse("x"), None);
        assert_eq!(Exponent::new(1, 2).mediant(Exponent::new(2, 3)), Exponent::new(3, 5));
    }
}
