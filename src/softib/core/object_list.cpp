#include "softib/core/object_list.hpp"

#include <cstring>
#include <type_traits>

namespace softib {

static_assert(std::is_trivially_copyable_v<ObjectStatus>);

ObjectRequest::Bytes ObjectRequest::bytes() const {
  Bytes out{static_cast<std::uint8_t>(kind)};
  std::memcpy(&out[1], &first, sizeof first);
  return out;
}

std::optional<ObjectRequest> ObjectRequest::parse(ConstBytes bytes) {
  if (bytes.size() != sizeof(Bytes)) return std::nullopt;
  if (bytes[0] >= static_cast<std::uint8_t>(ObjectKind::count_)) return std::nullopt;
  ObjectRequest request{static_cast<ObjectKind>(bytes[0])};
  std::memcpy(&request.first, &bytes[1], sizeof request.first);
  return request;
}

std::vector<std::uint8_t> ObjectPage::bytes() const {
  const auto size = objects.size() * kObjectBytes;
  std::vector<std::uint8_t> out(sizeof next + size);
  std::memcpy(out.data(), &next, sizeof next);
  if (size != 0) std::memcpy(&out[sizeof next], objects.data(), size);
  return out;
}

std::optional<ObjectPage> ObjectPage::parse(ConstBytes bytes) {
  ObjectPage page;
  if (bytes.size() < sizeof page.next) return std::nullopt;
  std::memcpy(&page.next, bytes.data(), sizeof page.next);
  const auto objects = bytes.subspan(sizeof page.next);
  const auto count = objects.size() / kObjectBytes;
  if (count > kMaxObjects || objects.size() % kObjectBytes != 0) return std::nullopt;
  page.objects.resize(count);
  if (count != 0) std::memcpy(page.objects.data(), objects.data(), objects.size());
  return page;
}

}  // namespace softib
