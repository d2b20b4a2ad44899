// Messages of the wire between processes, and the lines of a subnet process's answers.
#include <string_view>

#include "require.hpp"
#include "softib/flat_json.hpp"
#include "softib/train.hpp"

using namespace ipoib;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes message(data, size);
  std::vector<ConstBytes> packets;
  const bool whole = softib::unload(message, packets);
  std::size_t octets = 0;
  for (const auto& packet : packets) {
    require(packet.data() == data + octets);
    octets += packet.size();
  }
  require(whole ? octets == size || size == 1 : octets < size);

  const softib::FlatJson answer({reinterpret_cast<const char*>(data), size});
  for (const char* key : {"ok", "node", "error", ""}) {
    (void)answer.string(key);
    (void)answer.integer(key);
    (void)answer.boolean(key);
  }
  return 0;
}
