//! The terminal as a screen that is drawn anew, and given back as it was.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A screen of its own; dropping it brings the old one back.
///
/// A panic brings it back, too, before it says anything. Keys are not echoed meanwhile; Ctrl-C works as ever.
pub(crate) struct FullScreen(());

/// State of the terminal before it was changed; `None` while it is unchanged.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Option<Termios>,
}

impl FullScreen {
    const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
    const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

    /// Takes the terminal that stdout is.
    pub(crate) fn enter() -> io::Result<Self> {
        let modes = if io::stdin().is_terminal() { tcgetattr(io::stdin()).ok() } else { None };
        if let Some(modes) = &modes {
            let mut silent = modes.clone();
            silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &silent);
        }
        *lock() = Some(Before { modes });
        let says_it = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            says_it(panic);
        }));
        write(Self::ENTER)?;
        Ok(Self(()))
    }

    /// How many columns and lines there are; asked each time, because people pull at windows.
    pub(crate) fn size(&self) -> (usize, usize) {
        match terminal_size::terminal_size_of(io::stdout()) {
            Some((width, height)) => (usize::from(width.0).max(1), usize::from(height.0).max(1)),
            None => (80, 24),
        }
    }

    /// Shows these lines.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        // Over the old lines rather than after wiping them: nothing flickers.
        let mut text = String::from("\x1b[H");
        for (i, line) in lines.iter().enumerate() {
            if i > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        write(&text)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, once.
fn leave() {
    let Some(before) = lock().take() else { return };
    let _ = write(FullScreen::LEAVE);
    if let Some(modes) = before.modes {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Before>> {
    BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}
