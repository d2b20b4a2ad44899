// Seam: one UD queue pair with one completion queue, in terms of packets.
// Implemented by src/verbs over libibverbs, and by tests/sim over the HCA model.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/frame.hpp"
#include "ipoib/result.hpp"

namespace ipoib {

/// The hop limit of a GRH that does not leave the subnet (IBA 8.3.6: a router forwards none of 0 or
/// 1).
inline constexpr std::uint8_t kSubnetHopLimit = 1;

/// The global route of an address vector (IBA 11.2.2.1); always present for multicast.
struct GlobalRoute {
  Gid dgid;
  std::uint8_t sgid_index = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  friend bool operator==(const GlobalRoute&, const GlobalRoute&) = default;
};

/// What an address handle is created from: the path to a port or group.
struct AddressVector {
  Lid dlid;
  ServiceLevel sl;
  /// IBA rate code as in a PathRecord: 2 = 2.5 Gb/s, 3 = 10 Gb/s; 0: that of the port.
  std::uint8_t rate = 0;
  std::uint8_t source_path_bits = 0;
  std::optional<GlobalRoute> global;
  friend bool operator==(const AddressVector&, const AddressVector&) = default;
};

/// An address handle. Reference-counted, for one thread: a posted send holds a reference until its
/// completion, so that the handle is not destroyed while the device uses it.
class AddressHandle
    : public boost::intrusive_ref_counter<AddressHandle, boost::thread_unsafe_counter> {
 public:
  explicit AddressHandle(const AddressVector& vector) : vector_(vector) {}
  AddressHandle(const AddressHandle&) = delete;
  AddressHandle& operator=(const AddressHandle&) = delete;
  virtual ~AddressHandle() = default;

  /// What it was created from.
  [[nodiscard]] const AddressVector& vector() const { return vector_; }

 private:
  const AddressVector vector_;
};
using AddressHandlePtr = boost::intrusive_ptr<AddressHandle>;

/// One datagram to send, or a large packet that is sent as several: the frame begins with the
/// encapsulation header (RFC 4391, 6).
struct Outgoing {
  AddressHandlePtr to;
  Qpn qpn;
  Frame frame;
};

/// One received datagram: the frame begins with the encapsulation header.
struct Incoming {
  Frame frame;
  Lid source_lid;
  Qpn source_qpn;
  bool has_grh = false;
  ServiceLevel sl{};
  Gid source_gid;       ///< of the GRH; zero without one
  Gid destination_gid;  ///< of the GRH; zero without one
};

/// The part of a UdPort that the link needs.
class AddressHandleFactory {
 public:
  virtual ~AddressHandleFactory() = default;

  /// Creates a handle; the error names the resource or attribute that was refused.
  [[nodiscard]] virtual Result<AddressHandlePtr> create_address_handle(const AddressVector& to) = 0;
};

/// Attributes of a queue pair in RTS.
struct UdAttributes {
  std::uint16_t pkey_index = 0;
  QKey qkey;
  friend bool operator==(const UdAttributes&, const UdAttributes&) = default;
};

class UdPort : public AddressHandleFactory {
 public:
  [[nodiscard]] virtual Qpn qpn() const = 0;
  /// Brings the queue pair to RTS with these attributes, and posts receives.
  [[nodiscard]] virtual Result<void> configure(const UdAttributes& attributes) = 0;
  /// Posts the front of `batch` as one chain and takes over the posted frames. Returns their
  /// number, which is less than batch.size() when the send queue is full. Posts a large packet
  /// completely or not at all.
  virtual std::size_t send(std::span<Outgoing> batch) = 0;
  /// Appends at most `limit` received datagrams and returns their number. Also reaps sends.
  virtual std::size_t receive(std::vector<Incoming>& out, std::size_t limit) = 0;
  /// Attaches the queue pair to a group, or detaches it.
  [[nodiscard]] virtual Result<void> attach(const Gid& mgid, Lid mlid) = 0;
  [[nodiscard]] virtual Result<void> detach(const Gid& mgid, Lid mlid) = 0;
};

}  // namespace ipoib
