//! Messages of JSON-RPC 2.0, one a line, and what each means in the Model Context Protocol.

use iotide_report::text;
use serde_json::{Map, Value, json};

/// Longest message that is read.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// Revisions that begin with `initialize`, the latest first.
const WITH_HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Revisions whose requests each name the revision.
const STATELESS: [&str; 1] = ["2026-07-28"];

/// Error in the numbers of JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    code: i64,
    message: String,
    data: Option<Box<Value>>,
}

impl Fault {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn no_request(message: &str) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn no_method(method: &str) -> Self {
        Self::new(-32601, format!("there is no method {}", text::printable(method)))
    }

    pub(super) fn parameters(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn busy(n_waiting: usize) -> Self {
        Self::new(-32000, format!("{n_waiting} calls wait already; ask again when some are answered"))
    }
}

/// Number or name that a client gives a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestId(Value);

impl RequestId {
    fn read(value: &Value) -> Option<Self> {
        let is_one = value.is_string() || value.is_i64() || value.is_u64();
        is_one.then(|| Self(value.clone()))
    }
}

/// A message from the client.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Request {
        id: RequestId,
        method: String,
        parameters: Map<String, Value>,
        /// Whether it names the revision of the protocol itself.
        is_stateless: bool,
    },
    /// The client no longer wants the answer to a request.
    Cancelled(RequestId),
    /// Anything that wants no answer.
    Other,
}

/// A message that cannot be used, with the request that it was, if that is known.
#[derive(Debug, PartialEq)]
pub(super) struct Unusable {
    pub(super) id: Option<RequestId>,
    pub(super) fault: Fault,
}

impl Message {
    /// Reads one line.
    pub(super) fn read(line: &[u8]) -> Result<Self, Unusable> {
        let unknown = |fault| Unusable { id: None, fault };
        let message: Value = serde_json::from_slice(line)
            .map_err(|error| unknown(Fault::new(-32700, format!("a message is not JSON: {error}"))))?;
        let Value::Object(mut message) = message else {
            return Err(unknown(Fault::no_request(
                "a message is one JSON object; batches are not supported",
            )));
        };
        let id = message.get("id").map(RequestId::read);
        let refused = |message| Err(Unusable { id: id.clone().flatten(), fault: Fault::no_request(message) });
        if message.get("jsonrpc") != Some(&json!("2.0")) {
            return refused("jsonrpc must be \"2.0\"");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            // Answers to requests, which this server never makes.
            None => return Ok(Self::Other),
            Some(_) => return refused("method must be a string"),
        };
        let parameters = match message.remove("params") {
            Some(Value::Object(parameters)) => parameters,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return refused("params must be an object"),
        };
        match id {
            None if method == "notifications/cancelled" => {
                let of = parameters.get("requestId").and_then(RequestId::read);
                Ok(of.map_or(Self::Other, Self::Cancelled))
            }
            None => Ok(Self::Other),
            Some(None) => refused("id must be a string or an integer"),
            Some(Some(id)) => {
                let is_stateless =
                    revision(&parameters).map_err(|fault| Unusable { id: Some(id.clone()), fault })?;
                Ok(Self::Request { id, method, parameters, is_stateless })
            }
        }
    }
}

/// Whether a request names its revision; one that is not supported is a fault.
fn revision(parameters: &Map<String, Value>) -> Result<bool, Fault> {
    let named = parameters.get("_meta").and_then(|meta| meta.get("io.modelcontextprotocol/protocolVersion"));
    let Some(named) = named else { return Ok(false) };
    if named.as_str().is_some_and(|named| STATELESS.contains(&named)) {
        return Ok(true);
    }
    let data = json!({ "supported": STATELESS, "requested": named });
    Err(Fault {
        data: Some(Box::new(data)),
        ..Fault::new(-32022, "this revision of the protocol is not supported")
    })
}

/// Returns the answer to `initialize`: the client's revision if it is known, else the latest.
pub(super) fn initialized(parameters: &Map<String, Value>, instructions: &str) -> Value {
    let wanted = parameters.get("protocolVersion").and_then(Value::as_str);
    let revision =
        WITH_HANDSHAKE.into_iter().find(|known| wanted == Some(known)).unwrap_or(WITH_HANDSHAKE[0]);
    json!({
        "protocolVersion": revision,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": instructions,
    })
}

/// Returns the answer to `server/discover`, which stands in the place of `initialize` since 2026.
pub(super) fn discovered(instructions: &str) -> Value {
    json!({
        "supportedVersions": STATELESS,
        "capabilities": capabilities(),
        "instructions": instructions,
        "_meta": { "io.modelcontextprotocol/serverInfo": server() },
    })
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {} })
}

fn server() -> Value {
    json!({ "name": "iotide", "title": "iotide", "version": env!("CARGO_PKG_VERSION") })
}

/// Adds what revisions without a handshake want of every result, and of those that can be kept.
pub(super) fn completed(mut result: Value, is_stateless: bool, can_be_kept: bool) -> Value {
    if is_stateless {
        result["resultType"] = json!("complete");
        if can_be_kept {
            result["ttlMs"] = json!(3_600_000);
            result["cacheScope"] = json!("private");
        }
    }
    result
}

/// Returns an answer as a line.
pub(super) fn answer(id: &RequestId, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", text::json(&id.0))
}

/// Returns a fault as a line.
pub(super) fn refusal(id: Option<&RequestId>, fault: &Fault) -> String {
    let mut error = json!({ "code": fault.code, "message": fault.message });
    if let Some(data) = &fault.data {
        error["data"] = Value::clone(data);
    }
    let id = id.map_or(Value::Null, |id| id.0.clone());
    text::json(&json!({ "jsonrpc": "2.0", "id": id, "error": error })) + "\n"
}

/// Bytes that come, cut into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Whether the rest of a line that is too long is passed over.
    skips: bool,
}

impl Lines {
    /// Adds what was read, and hands every whole line on; one that is too long is a fault.
    pub(super) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(Result<&[u8], Unusable>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if !self.skips {
                self.bytes.extend_from_slice(piece);
                if self.bytes.len() > MOST_BYTES {
                    let fault = Fault::no_request("a message is longer than 1 MiB");
                    take(Err(Unusable { id: None, fault }));
                    self.skips = true;
                }
            }
            if is_end {
                let line = self.bytes.trim_ascii();
                if !self.skips && !line.is_empty() {
                    take(Ok(line));
                }
                self.bytes.clear();
                self.skips = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Message, Unusable> {
        Message::read(line.as_bytes())
    }

    fn refused(line: &str) -> (Option<RequestId>, i64) {
        let unusable = read(line).unwrap_err();
        (unusable.id, unusable.fault.code)
    }

    #[test]
    fn a_message_is_what_the_protocol_says() {
        let Ok(Message::Request { id, method, is_stateless, .. }) =
            read(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#)
        else {
            panic!("not a request")
        };
        assert_eq!((id, method.as_str(), is_stateless), (RequestId(json!("a")), "ping", false));
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(read(cancelled), Ok(Message::Cancelled(RequestId(json!(7)))));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#), Ok(Message::Other));
        assert_eq!(refused("{"), (None, -32700));
        assert_eq!(refused(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), (None, -32600));
        assert_eq!(
            refused(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#),
            (Some(RequestId(json!(1))), -32600)
        );
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#), (None, -32600));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#).1, -32600);
        let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":{}", "[".repeat(100_000));
        assert_eq!(refused(&deep).1, -32700);
    }

    #[test]
    fn a_request_may_name_its_revision() {
        let of = |revision: &str| {
            read(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{revision}"}}}}}}"#
            ))
        };
        assert!(matches!(of("2026-07-28"), Ok(Message::Request { is_stateless: true, .. })));
        let fault = of("2031-01-01").unwrap_err().fault;
        assert_eq!(fault.code, -32022);
        assert_eq!(
            fault.data.as_deref(),
            Some(&json!({"supported": ["2026-07-28"], "requested": "2031-01-01"}))
        );
        let with = |version: &str| {
            let Value::Object(parameters) = json!({ "protocolVersion": version }) else { panic!() };
            initialized(&parameters, "")["protocolVersion"].clone()
        };
        assert_eq!([with("2025-03-26"), with("1999-01-01")], [json!("2025-03-26"), json!("2025-11-25")]);
    }

    #[test]
    fn a_line_that_is_too_long_costs_that_line_only() {
        let mut lines = Lines::default();
        let mut taken = Vec::new();
        let long = "x".repeat(MOST_BYTES);
        for piece in ["one\n\n tw".to_owned(), format!("o \r\n{long}"), format!("{long}\nthree\nfou")] {
            lines.push(piece.as_bytes(), |line| {
                taken.push(
                    line.map_or("too long".to_owned(), |line| String::from_utf8(line.to_vec()).unwrap()),
                );
            });
        }
        assert_eq!(taken, ["one", "two", "too long", "three"]);
    }
}
