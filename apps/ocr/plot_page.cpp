#include "apps/ocr/plot_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libocr/metrics/gallery.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using Json = nlohmann::ordered_json;
using train::cat;

constexpr double kWidth = 640, kHeight = 260, kLeft = 64, kRight = 14, kTop = 12, kBottom = 30;
constexpr size_t kMostPoints = 1500, kDots = 60;
// Told apart by most kinds of eyes (after Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#7f3c8d", "#555555"};

constexpr const char* kHead =
    R"(<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Trainings</title><style>
body{font:14px/1.4 system-ui,sans-serif;margin:24px;color:#222;background:#fafafa}
h1{font-size:20px;margin:0 0 8px}h2{font-size:14px;margin:0 0 4px}
.legend span{display:inline-block;margin:0 18px 6px 0}.legend i{display:inline-block;width:22px;height:4px;border-radius:2px;margin:0 6px 3px 0}
.legend small{color:#777}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(460px,1fr));gap:16px;margin-top:12px}
figure{margin:0;padding:12px 12px 4px;background:#fff;border:1px solid #ddd;border-radius:6px}
svg{width:100%;height:auto;display:block}text{font-size:11px;fill:#666}.grid{stroke:#eee}.axis{stroke:#999}
polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}
#tip{position:fixed;display:none;background:#fff;border:1px solid #bbb;border-radius:4px;padding:6px 9px;font-size:12px;box-shadow:0 2px 6px #0002;pointer-events:none;white-space:pre}
</style></head><body>
)";

// The nearest point of every run to the mouse; the charts can be read without it.
constexpr const char* kScript = R"(
const tip=document.getElementById('tip');
document.querySelectorAll('figure').forEach((figure,at)=>{
 const chart=charts[at],svg=figure.querySelector('svg'),line=svg.querySelector('.cursor');
 svg.addEventListener('mousemove',e=>{
  const box=svg.getBoundingClientRect(),x=(e.clientX-box.left)/box.width*W;
  const step=chart.x0+(x-L)/(W-L-R)*(chart.x1-chart.x0);
  let near=null;const rows=[];
  chart.curves.forEach(c=>{
   let p=c.points[0];c.points.forEach(q=>{if(Math.abs(q[0]-step)<Math.abs(p[0]-step))p=q;});
   if(near===null||Math.abs(p[0]-step)<Math.abs(near-step))near=p[0];
   rows.push(c.run+'  '+Number(p[1].toPrecision(6))+'  at '+p[0]);
  });
  const u=L+(near-chart.x0)/((chart.x1-chart.x0)||1)*(W-L-R);
  line.setAttribute('x1',u);line.setAttribute('x2',u);line.style.display='';
  tip.textContent=rows.join('\n');tip.style.display='block';
  tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';tip.style.top=(e.clientY+14)+'px';
 });
 svg.addEventListener('mouseleave',()=>{line.style.display='none';tip.style.display='none';});
});
)";

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string at(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

struct Chart {
  struct Line {
    size_t run;
    std::vector<std::pair<int64_t, double>> points;
  };
  std::string title;
  std::vector<Line> lines;
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;

  double px(double x) const { return kLeft + (x - x0) / (x1 - x0) * (kWidth - kLeft - kRight); }
  double py(double y) const {
    return kHeight - kBottom - (y - y0) / (y1 - y0) * (kHeight - kTop - kBottom);
  }

  // Ranges of all points, with some air above and below.
  void fit() {
    x0 = y0 = INFINITY, x1 = y1 = -INFINITY;
    for (const Line& l : lines)
      for (const auto& [x, y] : l.points) {
        x0 = std::min(x0, static_cast<double>(x)), x1 = std::max(x1, static_cast<double>(x));
        y0 = std::min(y0, y), y1 = std::max(y1, y);
      }
    if (x1 <= x0) x0 -= 1, x1 += 1;
    const double air = y1 > y0 ? .05 * (y1 - y0) : std::max(std::abs(y1) * .1, 1e-9);
    y0 -= air, y1 += air;
  }

  std::string axes() const {
    std::string s;
    for (const double y : ticks(y0, y1, 5))
      s += cat("<line class=\"grid\" x1=\"", at(kLeft), "\" x2=\"", at(kWidth - kRight), "\" y1=\"",
               at(py(y)), "\" y2=\"", at(py(y)), "\"/><text text-anchor=\"end\" x=\"",
               at(kLeft - 6), "\" y=\"", at(py(y) + 4), "\">", number(y), "</text>");
    for (const double x : ticks(x0, x1, 6))
      s += cat("<text text-anchor=\"middle\" x=\"", at(px(x)), "\" y=\"",
               at(kHeight - kBottom + 15), "\">", number(x), "</text>");
    return s + cat("<line class=\"axis\" x1=\"", at(kLeft), "\" x2=\"", at(kWidth - kRight),
                   "\" y1=\"", at(kHeight - kBottom), "\" y2=\"", at(kHeight - kBottom),
                   "\"/><text text-anchor=\"end\" x=\"", at(kWidth - kRight), "\" y=\"",
                   at(kHeight - 2), "\">global_step</text>");
  }

  std::string svg() const {
    std::string s = cat("<figure><h2>", ocr::html_escaped(title), "</h2><svg viewBox=\"0 0 ",
                        kWidth, " ", kHeight, "\" role=\"img\">", axes());
    for (const Line& l : lines) {
      const char* colour = kColours[l.run % std::size(kColours)];
      s += cat("<polyline stroke=\"", colour, "\" points=\"");
      for (const auto& [x, y] : l.points)
        s += at(px(static_cast<double>(x))) + "," + at(py(y)) + " ";
      s += "\"/>";
      if (l.points.size() <= kDots)
        for (const auto& [x, y] : l.points)
          s += cat("<circle r=\"2.6\" fill=\"", colour, "\" cx=\"", at(px(static_cast<double>(x))),
                   "\" cy=\"", at(py(y)), "\"/>");
    }
    return s + cat("<line class=\"axis cursor\" style=\"display:none\" y1=\"", at(kTop), "\" y2=\"",
                   at(kHeight - kBottom), "\"/></svg></figure>\n");
  }

  Json data(const std::vector<RunRecord>& runs) const {
    Json j{{"x0", x0}, {"x1", x1}, {"curves", Json::array()}};
    for (const Line& l : lines)
      j["curves"].push_back({{"run", runs[l.run].folder}, {"points", l.points}});
    return j;
  }
};

// What a person looks for first stands first.
int place_of(const std::string& name) {
  if (name == "loss") return 0;
  if (name.starts_with("loss")) return 1;
  if (name == "lr") return 3;
  if (name == "ips") return 4;
  return name.ends_with("_cost") ? 5 : 2;
}

std::vector<Chart> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<Chart> charts;
  for (const bool eval : {true, false}) {
    std::vector<std::string> names;
    for (const RunRecord& r : runs)
      for (const auto& [name, curve] : eval ? r.eval : r.train)
        if (!curve.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
    std::ranges::stable_sort(names, {}, [&](const std::string& name) {
      if (!eval) return place_of(name);
      return std::ranges::any_of(runs, [&](const RunRecord& r) { return r.decides == name; }) ? 0
                                                                                              : 1;
    });
    for (const std::string& name : names) {
      Chart& c = charts.emplace_back();
      c.title = eval ? "evaluation: " + name : name;
      for (size_t i = 0; i < runs.size(); ++i) {
        const auto& curves = eval ? runs[i].eval : runs[i].train;
        if (const auto it = curves.find(name); it != curves.end() && !it->second.empty())
          c.lines.push_back({i, thinned(it->second, kMostPoints)});
      }
      c.fit();
    }
  }
  return charts;
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5., 2., 1.})
    if (m * power >= rough * (1 - 1e-9)) step = m * power;
  std::vector<double> all;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    all.push_back(k * step + 0.0);
  return all;
}

std::vector<std::pair<int64_t, double>> thinned(const Curve& curve, size_t most) {
  std::vector<std::pair<int64_t, double>> all(curve.begin(), curve.end());
  if (all.size() <= most) return all;
  std::vector<std::pair<int64_t, double>> kept;
  const size_t stretches = std::max<size_t>(1, most / 2);
  for (size_t s = 0; s < stretches; ++s) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(s * all.size() / stretches);
    const auto end = all.begin() + static_cast<ptrdiff_t>((s + 1) * all.size() / stretches);
    const auto [least, most_] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    kept.push_back(*std::min(least, most_));
    if (least != most_) kept.push_back(*std::max(least, most_));
  }
  return kept;
}

std::string plot_page(const std::vector<RunRecord>& runs) {
  std::string page = cat(kHead, "<h1>Trainings</h1><div class=\"legend\">");
  for (size_t i = 0; i < runs.size(); ++i)
    page += cat("<span><i style=\"background:", kColours[i % std::size(kColours)], "\"></i>",
                ocr::html_escaped(runs[i].folder), " <small>", ocr::html_escaped(runs[i].net), ", ",
                state_name(runs[i].state), "</small></span>");
  page += "</div><main>\n";
  Json data = Json::array();
  for (const Chart& c : charts_of(runs)) {
    page += c.svg();
    data.push_back(c.data(runs));
  }
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t i; (i = json.find('<')) != std::string::npos;) json.replace(i, 1, "\\u003c");
  return page + cat("</main><div id=\"tip\"></div><script>\nconst W=", kWidth, ",L=", kLeft,
                    ",R=", kRight, ",charts=", json, ";", kScript, "</script></body></html>\n");
}

}  // namespace app
