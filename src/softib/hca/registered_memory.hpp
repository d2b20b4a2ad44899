// Memory of the program that a key gives access to, from and to which the HCA copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ipoib/bytes.hpp"

namespace softib::hca {

using ipoib::ConstBytes;

/// Copies from and to memory that may not be mapped: that of on-demand regions (ODP). No call
/// raises a signal. Each returns false if a part of the memory is missing or protected; a part may
/// have been copied then.
class OnDemandMemory {
 public:
  virtual ~OnDemandMemory() = default;
  [[nodiscard]] virtual bool read(std::span<std::uint8_t> to, const std::uint8_t* from) = 0;
  [[nodiscard]] virtual bool write(std::uint8_t* to, ConstBytes from) = 0;
  /// Makes the pages present, so that they can be written to.
  [[nodiscard]] virtual bool populate(std::uint8_t* begin, std::size_t size) = 0;
};

/// The result of a key's checks: the memory that it gives access to, or none.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  /// `on_demand` is null if the pages are always there.
  RegisteredMemory(std::uint8_t* begin, OnDemandMemory* on_demand)
      : begin_(begin), on_demand_(on_demand) {}
  explicit operator bool() const { return begin_ != nullptr; }
  [[nodiscard]] std::uint8_t* begin() const { return begin_; }
  [[nodiscard]] bool is_on_demand() const { return on_demand_ != nullptr; }
  [[nodiscard]] RegisteredMemory from(std::size_t offset) const {
    return {begin_ + offset, on_demand_};
  }

  // These methods return false if the memory is missing.
  [[nodiscard]] bool store(ConstBytes from) const;
  /// Stores such that the last bytes become visible last, since programs poll them (IBA o9-20).
  /// `from` is not empty.
  [[nodiscard]] bool store_in_order(ConstBytes from) const;
  /// Requires is_on_demand(); other memory is referred to, not copied.
  [[nodiscard]] bool load(std::span<std::uint8_t> to) const;
  /// Prepares for an operation of the processor on the memory.
  [[nodiscard]] bool populate(std::size_t size) const;

 private:
  std::uint8_t* begin_ = nullptr;
  OnDemandMemory* on_demand_ = nullptr;
};

}  // namespace softib::hca
