//! Packets to a closed port, from several addresses, over smoltcp's loopback device; and the errors they get back.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use icmp_example::{ALL, EACH, PoliteDevice, error_to};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, Loopback, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpProtocol, IpRepr, UdpPacket, UdpRepr};

const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const HOST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

struct Net {
    device: PoliteDevice<Loopback>,
    interface: Interface,
    answers: BTreeMap<IpAddr, u32>,
}

impl Net {
    fn new() -> Self {
        let mut device = PoliteDevice(Loopback::new(Medium::Ip));
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(HOST6.into(), 64)).unwrap();
            addresses.push(IpCidr::new(HOST4.into(), 24)).unwrap();
        });
        interface
            .routes_mut()
            .add_default_ipv6_route(HOST6)
            .unwrap();
        Self {
            device,
            interface,
            answers: BTreeMap::new(),
        }
    }

    /// `count` packets to a port that nobody listens on. Each error that comes of it is counted for whom it goes to.
    fn provoke(&mut self, from: IpAddr, count: u32, millis: i64) {
        let now = Instant::from_millis(millis);
        let to: IpAddr = if from.is_ipv6() {
            HOST6.into()
        } else {
            HOST4.into()
        };
        for _ in 0..count {
            let packet = datagram(from.into(), to.into());
            let token = self.device.transmit(now).unwrap();
            token.consume(packet.len(), |out| out.copy_from_slice(&packet));
            let mut sockets = SocketSet::new(Vec::new());
            self.interface
                .poll_ingress_single(now, &mut self.device, &mut sockets);
            while let Some((received, _)) = self.device.receive(now) {
                let to = received.consume(error_to).expect("nothing but errors");
                *self.answers.entry(to).or_default() += 1;
            }
        }
    }

    /// How many errors went to each of these since they were last asked for, and to nobody else.
    fn answered<const N: usize>(&mut self, whom: [IpAddr; N]) -> [u32; N] {
        let answers = whom.map(|address| self.answers.remove(&address).unwrap_or(0));
        assert!(self.answers.is_empty());
        answers
    }
}

fn datagram(from: IpAddress, to: IpAddress) -> Vec<u8> {
    let udp = UdpRepr {
        src_port: 4_000,
        dst_port: 9,
    };
    let payload = b"anybody there?";
    let size = udp.header_len() + payload.len();
    let ip = IpRepr::new(from, to, IpProtocol::Udp, size, 64);
    let mut bytes = vec![0; ip.header_len() + size];
    let checksums = ChecksumCapabilities::default();
    ip.emit(&mut bytes, &checksums);
    let mut packet = UdpPacket::new_unchecked(&mut bytes[ip.header_len()..]);
    udp.emit(
        &mut packet,
        &from,
        &to,
        payload.len(),
        |out| out.copy_from_slice(payload),
        &checksums,
    );
    bytes
}

fn peer6(number: u16) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into()
}

fn peer4(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

/// One test, since the limits are statics: what one uses, another would miss.
#[test]
fn errors_are_limited_for_all_and_for_each() {
    EACH.hasher().reseed([1, 2]);
    let mut net = Net::new();
    let [a, b, c, d] = [peer6(2), peer6(3), peer4(4), peer4(5)];

    // Each gets its three, though one floods; the fourth gets the last of the ten.
    net.provoke(a, 50, 1_000);
    assert_eq!(net.answered([a]), [3]);
    net.provoke(b, 50, 1_000);
    net.provoke(c, 50, 1_000);
    net.provoke(d, 50, 1_000);
    assert_eq!(net.answered([a, b, c, d]), [0, 3, 3, 1]);

    // What was refused for want of the ten was not taken from the fourth: it still has two of its three.
    let now = tidegate::Timestamp::from_millis(1_000);
    assert_eq!(EACH.at(&d).peek_n(now, 0).unwrap().remaining(), 2);

    // A tenth of a second, and a bit for the rounding of narrow words: one more for all.
    net.provoke(a, 50, 1_101);
    net.provoke(d, 50, 1_101);
    assert_eq!(net.answered([a, d]), [0, 1]);

    // Two seconds later all have their three again, and the ten are back.
    net.provoke(a, 50, 3_110);
    net.provoke(b, 50, 3_110);
    net.provoke(c, 50, 3_110);
    net.provoke(d, 50, 3_110);
    assert_eq!(net.answered([a, b, c, d]), [3, 3, 3, 1]);
    assert_eq!(
        ALL.peek_n(tidegate::Timestamp::from_millis(3_110), 0)
            .unwrap()
            .remaining(),
        0
    );

    // A flood of addresses gets no more than one does.
    for number in 100..300 {
        net.provoke(peer6(number), 1, 3_110);
    }
    assert_eq!(net.answered([]), [0; 0]);
}

/// What is no error is not limited.
#[test]
fn everything_else_passes() {
    let mut device = PoliteDevice(Loopback::new(Medium::Ip));
    let packet = datagram(peer6(7).into(), HOST6.into());
    for _ in 0..1_000 {
        let token = device.transmit(Instant::ZERO).unwrap();
        token.consume(packet.len(), |out| out.copy_from_slice(&packet));
    }
    let mut passed = 0;
    while let Some((received, _)) = device.receive(Instant::ZERO) {
        received.consume(|bytes| assert_eq!(bytes, packet));
        passed += 1;
    }
    assert_eq!(passed, 1_000);
}
