// Socket addresses of the ABI: sockaddr_in, sockaddr_in6, and sockaddr_ib of librdmacm:
//
//   0        2       4          8     24           32             40         48
//   | family | P_Key | flowinfo | GID | service ID | service mask | scope ID |
//
// Family and scope ID are in the byte order of the machine, the rest in network order.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <optional>

#include "softib/rdma_cm/address.hpp"

namespace softib::rdma_cm {

/// Reads an address; nullopt for a family that RDMA does not have. Family 0 is no address.
[[nodiscard]] std::optional<Address> read_address(ipoib::ConstBytes from);
/// Writes the address and returns its size; 0 for none.
std::size_t write_address(const Address& address, sockaddr_storage& to);
/// The size of an address of this family; 0 for a family that RDMA does not have.
[[nodiscard]] std::size_t address_size(sa_family_t family);

}  // namespace softib::rdma_cm
