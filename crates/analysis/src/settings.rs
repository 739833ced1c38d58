//! Settings that people may change by name: declared once, with default and documentation in one place.

/// One number that can be set by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Its name, as a settings file has it.
    pub key: &'static str,
    /// Its default value.
    pub default: f64,
    /// Its meaning.
    pub doc: &'static str,
}

/// A value that no setting can take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// There is no setting of that name.
    #[error("there is no setting {key:?}")]
    Unknown {
        /// The name that was asked for.
        key: String,
    },
    /// There was a setting of that name; it decides on nothing any more.
    #[error("the setting {key:?} was removed: {why}")]
    Removed {
        /// The name that was asked for.
        key: &'static str,
        /// Reason why it was removed.
        why: &'static str,
    },
    /// The value is not a number, or below zero.
    #[error("{value} is no value for {key}: it must be a number not below 0")]
    OutOfRange {
        /// The setting.
        key: &'static str,
        /// The value that was refused.
        value: f64,
    },
}

/// Declares a struct of numbers with their defaults, and the table of its fields; then what was removed, and why.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident = $default:expr, )+
        }
        $( removed { $( $old:ident = $why:literal, )+ } )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: f64, )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $name {
            /// Every field: name, default and meaning.
            pub const SETTINGS: &'static [$crate::Setting] = &[
                $( $crate::Setting { key: stringify!($field), default: $default, doc: concat!($($doc),+).trim_ascii() }, )+
            ];

            /// Sets one field by its name.
            pub fn set(&mut self, key: &str, value: f64) -> Result<(), $crate::SettingError> {
                match key {
                    $( stringify!($field) => {
                        if value.is_nan() || value < 0.0 {
                            return Err($crate::SettingError::OutOfRange { key: stringify!($field), value });
                        }
                        self.$field = value;
                    } )+
                    $( $( stringify!($old) => {
                        return Err($crate::SettingError::Removed { key: stringify!($old), why: $why });
                    } )+ )?
                    _ => return Err($crate::SettingError::Unknown { key: key.to_owned() }),
                }
                Ok(())
            }

            /// Returns one field by its name.
            pub fn get(&self, key: &str) -> Option<f64> {
                match key {
                    $( stringify!($field) => Some(self.$field), )+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use settings;
