#include "batch.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>

#include "command.hpp"

namespace ipoib::ibarp {

Batch::Batch(const std::string& name) : name_(name), in_(name == "-" ? std::cin : file_) {
  if (name == "-") return;
  file_.open(name);
  if (!file_) throw Failure(kFailed, name + ": " + std::strerror(errno));
}

bool Batch::read_line(std::string& text) {
  text.clear();
  errno = 0;
  char c = '\0';
  while (in_.get(c)) {
    if (c == '\n') return true;
    if (text.size() == kMaxLine) {
      throw Failure(kUsage,
                    location() + "a line has at most " + std::to_string(kMaxLine) + " bytes");
    }
    text += c;
  }
  if (errno != 0) throw Failure(kFailed, location() + std::strerror(errno));
  return !text.empty();
}

bool Batch::next(std::vector<std::string>& words) {
  for (std::string text;;) {
    ++line_;
    if (!read_line(text)) return false;
    words.clear();
    std::istringstream in(text);
    for (std::string word; in >> word && word.front() != '#';) words.push_back(std::move(word));
    if (!words.empty()) return true;
  }
}

}  // namespace ipoib::ibarp
