// Whether a table keeps an entry after a stimulus.
#pragma once

namespace ipoib::link {

enum class Disposition : bool { keep, erase };

}  // namespace ipoib::link
