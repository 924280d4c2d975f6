// Predict with an exported operator: float32 numbers of the inputs (B, C, *N) come from standard
// input, those of the outputs go to standard output, their shape to standard error.
//
//   predict operator.aoti.pt2 B C N1 [N2] < input.f32 > output.f32

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

int main(int count, char** words) {
  if (count < 5) {
    std::fprintf(stderr, "usage: predict operator.aoti.pt2 B C N1 [N2] < input.f32 > output.f32\n");
    return 2;
  }
  std::vector<int64_t> shape;
  int64_t numbers = 1;
  for (int k = 2; k < count; ++k) {
    shape.push_back(std::atoll(words[k]));
    numbers *= shape.back();
  }
  if (numbers < 1) {
    std::fprintf(stderr, "predict: the shape has to be positive numbers\n");
    return 2;
  }
  torch::Tensor inputs = torch::empty(shape, torch::kFloat32);
  const auto wanted = static_cast<size_t>(numbers);
  if (std::fread(inputs.data_ptr<float>(), sizeof(float), wanted, stdin) != wanted) {
    std::fprintf(stderr, "predict: expected %zu float32 numbers on standard input\n", wanted);
    return 2;
  }
  try {
    c10::InferenceMode inference;
    torch::inductor::AOTIModelPackageLoader operator_file(words[1]);
    const torch::Tensor outputs = operator_file.run({inputs})[0].contiguous();
    for (const int64_t size : outputs.sizes()) std::fprintf(stderr, "%lld ", static_cast<long long>(size));
    std::fprintf(stderr, "\n");
    const auto made = static_cast<size_t>(outputs.numel());
    return std::fwrite(outputs.data_ptr<float>(), sizeof(float), made, stdout) == made ? 0 : 1;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "predict: %s\n", problem.what());
    return 1;
  }
}
