#include "softib/rdma_cm/qp_attributes.hpp"

#include <algorithm>
#include <cerrno>

namespace softib::rdma_cm {

using ipoib::Error;
using ipoib::Result;

namespace {

Error no_state() { return {EINVAL, "the ID has no attributes for this state of its queue pair"}; }

/// The index of the partition: that of the full member, if the table has both keys.
std::optional<std::uint16_t> pkey_index(const PortAttributes& port, PKey pkey) {
  const auto find = [&](bool full_only) {
    return std::ranges::find_if(port.pkeys, [&](PKey ours) {
      return ours.is_valid() && ours.same_partition(pkey) && (ours.is_full() || !full_only);
    });
  };
  auto entry = find(true);
  if (entry == port.pkeys.end()) entry = find(false);
  if (entry == port.pkeys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(entry - port.pkeys.begin());
}

void add_rtr(QpAttributes& attributes, const Id& id, const cm::QpParameters& parameters) {
  attributes.mask |= QpAttributes::kAddressVector | QpAttributes::kPathMtu |
                     QpAttributes::kDestination | QpAttributes::kRqPsn;
  attributes.path = parameters.path;
  attributes.destination = parameters.remote_qpn;
  attributes.rq_psn = id.starting_psn;
  const bool has_responder =
      id.service == Service::reliable || id.service == Service::extended_target;
  if (!has_responder) return;
  attributes.mask |= QpAttributes::kMaxDestinationReads | QpAttributes::kMinRnrTimer;
  attributes.max_destination_reads = parameters.responder_resources;
}

void add_rts(QpAttributes& attributes, const Id& id, const cm::QpParameters& parameters) {
  attributes.mask |= QpAttributes::kSqPsn;
  attributes.sq_psn = parameters.sq_psn;
  if (id.service == Service::unreliable) return;
  attributes.mask |= QpAttributes::kTimeout;
  attributes.timeout = id.ack_timeout.value_or(parameters.ack_timeout);
  if (id.service == Service::extended_target) return;
  attributes.mask |= QpAttributes::kRetryCount | QpAttributes::kRnrRetry | QpAttributes::kMaxReads;
  attributes.retry_count = parameters.retry_count;
  attributes.rnr_retry = parameters.rnr_retry_count;
  attributes.max_reads = parameters.initiator_depth;
}

}  // namespace

Result<QpAttributes> qp_attributes(const Id& id, std::uint32_t state, const PortAttributes& port,
                                   const cm::QpParameters* parameters) {
  QpAttributes attributes;
  attributes.mask = QpAttributes::kState;
  attributes.state = state;
  const bool is_datagram = id.service == Service::datagram;
  if (state == QpAttributes::kInit) {
    const auto index = pkey_index(port, id.pkey);
    if (!index) return Error{EINVAL, "the port has left the partition"};
    attributes.mask |= QpAttributes::kPKeyIndex | QpAttributes::kPort;
    attributes.pkey_index = *index;
    attributes.port = port.number;
    if (is_datagram) {
      attributes.mask |= QpAttributes::kQKey;
      attributes.qkey = id.qkey;
      return attributes;
    }
    attributes.mask |= QpAttributes::kAccessFlags;
    if (parameters != nullptr) attributes.access = QpAttributes::kRemoteWrite;
    if (parameters != nullptr && parameters->responder_resources > 0) {
      attributes.access |= QpAttributes::kRemoteRead | QpAttributes::kAtomic;
    }
    return attributes;
  }
  if (is_datagram || parameters == nullptr) return no_state();
  if (state == QpAttributes::kRtr) {
    add_rtr(attributes, id, *parameters);
  } else if (state == QpAttributes::kRts) {
    add_rts(attributes, id, *parameters);
  } else {
    return no_state();
  }
  return attributes;
}

}  // namespace softib::rdma_cm
