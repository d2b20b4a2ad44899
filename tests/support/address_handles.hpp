// The AddressHandleFactory of all tests that have no verbs device.
#pragma once

#include <cerrno>
#include <vector>

#include "ipoib/ud_port.hpp"

namespace ipoib {

class FakeAddressHandles : public AddressHandleFactory {
 public:
  Result<AddressHandlePtr> create_address_handle(const AddressVector& to) override {
    if (refuses) return Error{ENOMEM, "no memory for an address handle"};
    if (records) made.push_back(to);
    return AddressHandlePtr(new AddressHandle(to));
  }
  bool refuses = false;
  bool records = true;
  std::vector<AddressVector> made;
};

}  // namespace ipoib
