#include "findings.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "client.hpp"
#include "color.hpp"
#include "table/table.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;

namespace {

const char* name(Verdict verdict) {
  constexpr std::array<const char*, 3> kNames{"ok", "warning", "wrong"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::string ink_verdict(Verdict verdict) {
  return ink(verdict == Verdict::wrong ? Ink::bad : Ink::good, name(verdict));
}

}  // namespace

Counts drops_of(const Client& client) {
  Counts out;
  for (const ibarp_counter& each : client.counters()) {
    if (each.is_drop != 0 && each.value != 0) out[each.name] = each.value;
  }
  return out;
}

std::string text_of(const Counts& drops) {
  std::string out;
  for (const auto& [name, value] : drops) {
    out += (out.empty() ? "" : ", ") + name + " " + std::to_string(value);
  }
  return out;
}

void Findings::ok(std::string subject, std::string text) {
  all_.push_back({Verdict::ok, std::move(subject), std::move(text), {}});
}

void Findings::warn(std::string subject, std::string text, std::string remedy) {
  all_.push_back({Verdict::warning, std::move(subject), std::move(text), std::move(remedy)});
}

void Findings::wrong(std::string subject, std::string text, std::string remedy) {
  all_.push_back({Verdict::wrong, std::move(subject), std::move(text), std::move(remedy)});
}

bool Findings::has_wrong() const {
  return std::ranges::any_of(all_,
                             [](const Finding& each) { return each.verdict == Verdict::wrong; });
}

std::string Findings::text(std::size_t width) const {
  table::Table lines({{""}, {""}, {""}});
  for (const Finding& each : all_) {
    lines.add({"  " + ink_verdict(each.verdict), each.subject, each.text});
    if (!each.remedy.empty()) lines.add({"", "", "-> " + each.remedy});
  }
  return ink(Ink::interface, about_) + ":\n" + lines.text(width);
}

std::string Findings::json() const {
  json::array findings;
  for (const Finding& each : all_) {
    json::object out{
        {"subject", each.subject}, {"verdict", name(each.verdict)}, {"text", each.text}};
    if (!each.remedy.empty()) out["remedy"] = each.remedy;
    findings.push_back(std::move(out));
  }
  return json::serialize(
      json::object{{"about", about_}, {"ok", !has_wrong()}, {"findings", std::move(findings)}});
}

}  // namespace ipoib::ibarp
