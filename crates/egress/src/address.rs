//! Addresses that sessions may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use himalia_model::network::PrivateAddresses;

/// Reason why a session may not reach an address; `None` if it may. Binding an address shows if it is one of this machine's own.
pub(crate) fn refusal(address: IpAddr, port: u16, exceptions: &[PrivateAddresses]) -> Option<&'static str> {
    let address = address.to_canonical();
    if exceptions.iter().any(|exception| exception.has(address, port)) {
        return None;
    }
    not_public(address).or_else(|| is_own(address).then_some("an address of the gateway's own machine"))
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Kind of an address that is not one of the public internet.
fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "an address of this network",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "a private address",
        (100, 64..=127, _) => "an address of a carrier's network",
        (127, ..) => "a loopback address",
        (169, 254, _) => "a link-local or metadata address",
        (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113)
        | (240.., ..) => "a reserved address",
        (224..=239, ..) => "a multicast address",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let [first, second, third, ..] = segments;
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        not_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (first, second) {
        _ if address.is_loopback() => Some("a loopback address"),
        // NAT64.
        (0x64, 0xff9b) if segments[2..6] == [0; 4] => embedded(segments[6], segments[7]),
        (0x64, 0xff9b) | (0xfc00..=0xfdff, _) => Some("a private address"),
        // 6to4.
        (0x2002, _) => embedded(second, third),
        (0xfe80..=0xfeff, _) => Some("a link-local address"),
        (0xff00.., _) => Some("a multicast address"),
        // Teredo, benchmarks, ORCHID, documentation.
        (0x2001, 0 | 2 | 0x10..=0x2f | 0xdb8) | (0x3fff, 0..=0x0fff) => Some("a reserved address"),
        (0x2000..=0x3fff, _) => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(address: &str) -> Option<&'static str> {
        not_public(address.parse::<IpAddr>().unwrap().to_canonical())
    }

    #[test]
    fn only_public_addresses_are_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(why(address), None, "{address}");
        }
        for (address, kind) in [
            ("0.0.0.0", "this network"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "carrier"),
            ("127.0.0.1", "loopback"),
            ("127.255.0.1", "loopback"),
            ("169.254.169.254", "metadata"),
            ("192.0.0.192", "reserved"),
            ("198.19.0.1", "reserved"),
            ("224.0.0.1", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "reserved"),
            ("::1", "loopback"),
            ("::127.0.0.1", "reserved"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "metadata"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b:1::1", "private"),
            ("64:ff9b:0:0:1::808:808", "private"),
            ("2002:7f00:1::1", "loopback"),
            ("2002:a9fe:a9fe::", "metadata"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "reserved"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "link-local"),
            ("ff02::1", "multicast"),
            ("4000::1", "reserved"),
            ("5f00::1", "reserved"),
        ] {
            let said = why(address).unwrap_or_else(|| panic!("{address} is public"));
            assert!(said.contains(kind), "{address}: {said}");
        }
    }

    #[test]
    fn an_exception_is_one_address_one_port_or_a_range() {
        let exceptions: Vec<PrivateAddresses> = ["127.0.0.1:8080", "10.1.0.0/16", "[::1]:9", "192.168.0.7"]
            .map(|text| text.parse().unwrap())
            .into();
        let refused = |address: &str, port| refusal(address.parse().unwrap(), port, &exceptions).is_some();
        assert!(!refused("127.0.0.1", 8080) && refused("127.0.0.1", 8081) && refused("127.0.0.2", 8080));
        assert!(!refused("::ffff:127.0.0.1", 8080), "another spelling of the same");
        assert!(!refused("10.1.255.1", 1) && refused("10.2.0.1", 1));
        assert!(!refused("::1", 9) && refused("::1", 10));
        assert!(!refused("192.168.0.7", 22) && refused("192.168.0.8", 22));
    }

    #[test]
    fn an_address_of_this_machine_is_known() {
        assert!(is_own(IpAddr::from([127, 0, 0, 1])));
        assert!(!is_own(IpAddr::from([203, 0, 113, 77])));
    }
}
