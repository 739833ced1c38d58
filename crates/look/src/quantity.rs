//! Times, sizes and probabilities as people type them.

/// Reads a size: `4096`, `64k`, `64M`, `1GiB` (powers of 1024), `64MB` (powers of 1000). Zero is refused.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(format!("'{unit}' is no unit of size; there are k, M, G, T and kB, MB, GB, TB")),
    };
    // Exact in f64 up to 9 PB; above that nobody counts single bytes.
    match number.parse::<f64>().map(|number| number * factor as f64) {
        Ok(bytes) if (1.0..=1e18).contains(&bytes) => Ok(bytes as u64),
        Ok(_) => Err("a size is between 1 byte and 1e18 bytes".to_owned()),
        Err(_) => Err(format!("'{number}' is no number")),
    }
}

/// Reads a time in seconds: `4`, `0.5s`, `250ms`, `2min`, `1h`, `3d`, `2w`. Zero is refused.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split_unit(text);
    let Some(factor) = unit_s(unit) else {
        return Err(format!("'{unit}' is no unit of time; there are us, ms, s, min, h, d, w"));
    };
    match number.parse::<f64>() {
        Ok(number) if (1e-6..=1e9).contains(&(number * factor)) => Ok(number * factor),
        Ok(_) => Err("a time is between 1 µs and 1e9 s".to_owned()),
        Err(_) => Err(format!("'{number}' is no number")),
    }
}

/// Reads how long ago something was, in seconds: a time as [`parse_seconds`] reads it, but `m` is a minute, and 0 is now.
pub fn parse_ago(text: &str) -> Result<f64, String> {
    let (number, unit) = split_unit(text);
    let factor = if unit == "m" { unit_s("min") } else { unit_s(unit) };
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if (number * factor).is_finite() => Ok((number * factor).max(0.0)),
        (Ok(_), Some(_)) => Err("a finite time".to_owned()),
        _ => Err("a number and a unit: s, m, h, d or w".to_owned()),
    }
}

fn unit_s(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    })
}

/// Reads a probability: `0.25` or `25%`.
pub fn parse_probability(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim(), 0.01),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&(number * factor)) => Ok(number * factor),
        Ok(_) => Err("a probability is between 0 and 1, or 0% and 100%".to_owned()),
        Err(_) => Err(format!("'{number}' is no number")),
    }
}

/// Returns a size in the largest unit that keeps it at 1 or above, in powers of 1024: `64 MiB`, `1.5 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let decimals = if value.fract() == 0.0 { 0 } else { 1 };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_in_powers_of_1024_and_of_1000() {
        let sizes =
            ["1", "4k", "64M", "64 MiB", "64MB", "1.5G", "536870912"].map(|text| parse_size(text).unwrap());
        assert_eq!(sizes, [1, 4096, 67_108_864, 67_108_864, 64_000_000, 1_610_612_736, 536_870_912]);
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in ["0", "-5", "99999999999T"] {
            assert_eq!(parse_size(text).unwrap_err(), "a size is between 1 byte and 1e18 bytes");
        }
        assert!(parse_size("5X").unwrap_err().contains("'X' is no unit of size"));
        assert!(parse_size("M").is_err() && parse_size("NaN").is_err());
        assert!(parse_seconds("0").is_err() && parse_seconds("inf").is_err() && parse_seconds("1y").is_err());
        assert!(parse_probability("1.1").is_err() && parse_probability("101%").is_err());
    }

    #[test]
    fn times_and_probabilities_may_carry_a_unit() {
        assert_eq!(
            ["4", "250ms", "2min", "3d"].map(|text| parse_seconds(text).unwrap()),
            [4.0, 0.25, 120.0, 259_200.0]
        );
        assert_eq!(["0.25", "25%", "100%"].map(|text| parse_probability(text).unwrap()), [0.25, 0.25, 1.0]);
    }

    #[test]
    fn a_time_ago_may_be_none_and_minutes_are_short() {
        assert_eq!(
            ["0", "5m", "5min", "2w", "30d", "-3s"].map(|text| parse_ago(text).unwrap()),
            [0.0, 300.0, 300.0, 1_209_600.0, 2_592_000.0, 0.0]
        );
        for text in ["", "x", "5y", "NaN", "1e308w"] {
            assert!(parse_ago(text).is_err(), "{text}");
        }
        assert!(parse_seconds("5m").is_err(), "it could be milliseconds");
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        assert_eq!(
            [0, 1023, 1 << 26, 3 << 29, 1 << 45].map(human_bytes),
            ["0 B", "1023 B", "64 MiB", "1.5 GiB", "32.0 TiB"]
        );
    }
}
