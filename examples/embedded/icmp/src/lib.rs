//! A network device that sends no more ICMP errors than RFC 4443, section 2.4 (f), asks for: a token bucket of ten at
//! once and ten a second for all, and one for each address, so that nobody uses up what others need.
//!
//! It wraps any device of smoltcp's. What the stack wants to send passes by here; errors beyond the limits are dropped.

#![no_std]

use core::net::IpAddr;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{
    Icmpv4Message, Icmpv4Packet, Icmpv6Packet, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet,
};
use tidegate::{All, Limiter, Line, Quota, SliceTable, Timestamp, TokenBucket};

/// For all: N = 10 a second, B = 10.
pub static ALL: Limiter<TokenBucket<u32>> =
    Limiter::new(TokenBucket::narrow(Quota::per_second(10)));

// 32 lines of 8 addresses: 2 KiB, which suffices for more than ever get an answer while they are remembered.
static LINES: [Line<u32>; 32] = [const { Line::new() }; 32];

/// For each address: two a second, three at once. Reseed it when the program starts.
pub static EACH: SliceTable<TokenBucket<u32>> = SliceTable::over(
    TokenBucket::narrow(Quota::per_second(2)).with_burst(3),
    &LINES,
);

/// Whether an error may go to the address whose packet was at fault: both limits agree, or neither has counted it.
pub fn may_complain_to(address: IpAddr, now: Timestamp) -> bool {
    All((EACH.at(&address), &ALL)).check(now).is_ok()
}

/// The address that an ICMP error goes to; `None` for all other packets.
pub fn error_to(ip: &[u8]) -> Option<IpAddr> {
    match IpVersion::of_packet(ip).ok()? {
        IpVersion::Ipv4 => {
            let packet = Ipv4Packet::new_checked(ip).ok()?;
            if packet.next_header() != IpProtocol::Icmp {
                return None;
            }
            let kind = Icmpv4Packet::new_checked(packet.payload()).ok()?.msg_type();
            let is_error = matches!(
                kind,
                Icmpv4Message::DstUnreachable
                    | Icmpv4Message::TimeExceeded
                    | Icmpv4Message::ParamProblem
            );
            is_error.then(|| packet.dst_addr().into())
        }
        IpVersion::Ipv6 => {
            let packet = Ipv6Packet::new_checked(ip).ok()?;
            if packet.next_header() != IpProtocol::Icmpv6 {
                return None;
            }
            let kind = Icmpv6Packet::new_checked(packet.payload()).ok()?.msg_type();
            kind.is_error().then(|| packet.dst_addr().into())
        }
    }
}

/// The largest frame that is sent: an error has to be looked at before it may take a buffer of the device.
const FRAME_MAX: usize = 1514;

/// A device that drops what [`may_complain_to`] refuses.
pub struct PoliteDevice<D>(pub D);

impl<D: Device> Device for PoliteDevice<D> {
    type RxToken<'a>
        = D::RxToken<'a>
    where
        D: 'a;
    type TxToken<'a>
        = PoliteToken<D::TxToken<'a>>
    where
        D: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.max_transmission_unit = capabilities.max_transmission_unit.min(FRAME_MAX);
        capabilities
    }

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let medium = self.0.capabilities().medium;
        let (received, inner) = self.0.receive(now)?;
        Some((received, PoliteToken { inner, now, medium }))
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        let medium = self.0.capabilities().medium;
        let inner = self.0.transmit(now)?;
        Some(PoliteToken { inner, now, medium })
    }
}

/// The right to send one packet, if it is no error, or one too many.
pub struct PoliteToken<T> {
    inner: T,
    now: Instant,
    medium: Medium,
}

impl<T: TxToken> TxToken for PoliteToken<T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = [0; FRAME_MAX];
        let frame = &mut frame[..len];
        let result = fill(frame);
        let ip = match self.medium {
            Medium::Ethernet => frame.get(14..).unwrap_or(&[]),
            _ => frame,
        };
        let now = Timestamp::from_micros(self.now.total_micros().max(0) as u64);
        if error_to(ip).is_none_or(|address| may_complain_to(address, now)) {
            self.inner.consume(len, |out| out.copy_from_slice(frame));
        }
        result
    }
}
