//! Names for servers of the site.

use iotide_http::Url;

/// Names for addresses, of which no two are the same.
pub(crate) fn names<'a>(addresses: impl IntoIterator<Item = &'a Url>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for address in addresses {
        let mut name = address.authority();
        while names.contains(&name) {
            name.push('+');
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_addresses_have_one_name() {
        let target: Url = "http://[::1]:9090".parse().unwrap();
        assert_eq!(names([&target, &target]), ["[::1]:9090", "[::1]:9090+"]);
    }
}
