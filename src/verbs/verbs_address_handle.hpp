// An AddressHandle that owns an ibv_ah.
#pragma once

#include <utility>

#include "ipoib/ud_port.hpp"
#include "verbs/owners.hpp"

namespace ipoib::verbs {

class VerbsAddressHandle final : public AddressHandle {
 public:
  VerbsAddressHandle(const AddressVector& vector, RawAddressHandle handle)
      : AddressHandle(vector), handle_(std::move(handle)) {}
  [[nodiscard]] ibv_ah* get() const { return handle_.get(); }

 private:
  RawAddressHandle handle_;
};

}  // namespace ipoib::verbs
