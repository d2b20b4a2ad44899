// The commands of the rdma_cm device (rdma/rdma_user_cm.h, ABI version 4), as librdmacm writes
// them. A response is written to the address that the command names.
//
//   | command 32 | size of what follows 16 | size of the response 16 | ...
#pragma once

#include <functional>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/result.hpp"
#include "softib/rdma_cm/manager.hpp"

namespace softib::ucma {

struct CommandContext {
  rdma_cm::Manager& manager;
  const rdma_cm::Node& node;
  rdma_cm::ChannelId channel;  ///< of the descriptor that was written to
  ipoib::TimePoint now;
  /// The channel of another descriptor of the process.
  std::function<std::optional<rdma_cm::ChannelId>(int fd)> channel_of;
};

/// Whether the command waits for an event, so that execute() returns EAGAIN if there is none.
[[nodiscard]] bool is_get_event(ipoib::ConstBytes command);
/// The function of librdmacm whose command this is, for messages.
[[nodiscard]] const char* function_of(ipoib::ConstBytes command);
/// Executes a command. Errors are those of the kernel: EINVAL for an unknown or short command,
/// ENOSPC for too small a response, EFAULT for an address without memory, ENOSYS for GET_OPTION,
/// which is not supported, and those of rdma_cm::Manager.
[[nodiscard]] ipoib::Result<void> execute(const CommandContext& context, ipoib::ConstBytes command);

}  // namespace softib::ucma
