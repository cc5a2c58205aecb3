//===- AttentionMatcher.h - attention that is written out -------*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads attention and its gradient out of a graph. Dimensions of scores, of
// probabilities and of their gradients carry labels, which transposes and
// products hand on: 0 to n - 1 for the batching dimensions of the product of
// queries and keys, in its order, then one for rows of the query and one for
// rows of the key. An operand of a product has, beside the batching dimensions,
// a row and a depth.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_LIB_TRANSFORMS_FUSION_ATTENTIONMATCHER_H
#define MPCOMM_LIB_TRANSFORMS_FUSION_ATTENTIONMATCHER_H

#include "mpcomm/Dialect/MPComm/IR/MPComm.h"
#include <optional>
#include <string>

namespace mpcomm {

/// A label for each dimension of a tensor.
using Labels = llvm::SmallVector<int64_t>;

/// Queries, keys, values, or the gradient of the output, after all transposes
/// of them: the dimension that has each batching label, the row, the depth.
struct RowOperand {
  mlir::Value value;
  llvm::SmallVector<int64_t> batch;
  int64_t row = 0, depth = 0;

  bool operator==(const RowOperand &other) const;
  int64_t getSize(int64_t dim) const {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(dim);
  }
};

/// A product that gives a tensor of rows, and what its dimensions are.
struct RowProduct {
  DotGeneralOp op;
  Labels labels;
};

/// A product with a tensor of labels for one operand.
struct LabelledProduct {
  RowOperand other;
  /// The label that is summed over.
  int64_t contracted = 0;
  /// Of the result; `depth` for that of the other operand.
  Labels labels;
};

/// The condition of a select of scores, in the order of `labels`.
struct AttentionMask {
  mlir::Value value;
  Labels labels;
  /// Whether 1 marks what is left out.
  bool isInverted = false;
  /// What is broadcast to it, and the labels of its dimensions of more than one
  /// element: rows of the query, rows of the key, or fewer.
  mlir::Value source;
  Labels sourceLabels;
};

/// What is added to scores, in the order of `labels`.
struct AttentionBias {
  mlir::Value value;
  Labels labels;
  /// What is broadcast to it, and the labels of its dimensions; no label where
  /// they have one element.
  mlir::Value source;
  llvm::SmallVector<std::optional<int64_t>> sourceLabels;
  /// The types to which `source` is cast, one after the other.
  llvm::SmallVector<mlir::Type> casts;
};

/// What the step makes of the gradients of scores for the gradient of the bias:
/// their sum over the dimensions that the bias lacks, times a factor.
struct BiasGradient {
  mlir::Value value;
  Labels labels; ///< of its dimensions
  double factor = 1;
};

class AttentionMatcher {
public:
  explicit AttentionMatcher(SoftmaxOp softmax) : softmax(softmax) {}

  /// Whether it is attention, and all that reads scores and probabilities is
  /// known. Otherwise `reason` says what is not, and is empty where it does not
  /// look like attention at all. Linear in the ops that are read.
  bool match();
  std::string reason;

  int64_t getNumBatch() const { return numBatch; }
  int64_t getQueryLabel() const { return queryLabel; }
  int64_t getKeyLabel() const { return keyLabel; }
  int64_t getDepthLabel() const { return numBatch + 2; }

  RowOperand query, key, value;
  double scale = 1;
  std::optional<AttentionMask> mask;
  std::optional<AttentionBias> bias;
  /// Whether rows that are all -inf have probabilities of 0.
  bool isSafe = false;
  RowProduct output;
  /// Of the product of queries and keys.
  mlir::RankedTensorType scoresType;

  /// The backward pass; gradients that nobody computes are null.
  bool hasGradient() const { return bool(grad.value); }
  RowOperand grad;
  RowProduct queryGrad, keyGrad, valueGrad;
  llvm::SmallVector<BiasGradient> biasGrads;
  /// The first op of it, before which the gradients can be computed.
  mlir::Operation *firstOfGradient = nullptr;

private:
  bool fail(const llvm::Twine &why) {
    reason = why.str();
    return false;
  }
  bool failUser(llvm::StringRef what, mlir::Operation *user) {
    return fail("the " + what + " have another user, " +
                user->getName().getStringRef());
  }

  void readSafe();
  bool hasOtherUsers(mlir::Value scores) const;
  bool readScores();
  bool readMask();
  bool readBias();
  bool readProbabilities(mlir::Value value, const Labels &labels);
  bool readProbabilityProduct(DotGeneralOp op, bool isLhs,
                              const Labels &labels);
  bool readGradient();
  bool readScoresGradient(mlir::Value value, const Labels &labels,
                          double factor);
  bool readScoresGradientProduct(DotGeneralOp op, bool isLhs,
                                 const Labels &labels, double factor);
  bool isZeroedByMask(mlir::Operation *user, mlir::Value current,
                      const Labels &labels);
  bool readBiasGradient(mlir::Value current, const Labels &labels,
                        double factor, mlir::Operation *user);
  bool isOfBias(int64_t label) const;
  bool isSumForBias(const Labels &labels) const;
  std::optional<LabelledProduct> readProduct(DotGeneralOp op, bool isLhs,
                                             const Labels &labels);
  bool setGrad(const RowOperand &found);
  bool isMask(mlir::Value condition, const Labels &labels, bool isInverted);

  /// Whether one more tensor may be followed to its users: real graphs have a
  /// few of probabilities and of gradients.
  bool follow() { return ++followed <= 1000 || fail("too many ops follow it"); }

  SoftmaxOp softmax;
  /// The softmax, or what has its zeros.
  mlir::Value probabilities;
  /// What tells rows of -inf alone (`isSafe`).
  mlir::Operation *rowMaximum = nullptr;
  int followed = 0;
  int64_t numBatch = 0, queryLabel = 0, keyLabel = 0;
  Labels softmaxLabels;
  SoftmaxGradOp softmaxGrad;
  Labels softmaxGradLabels;
};

/// The labels of a transpose of a tensor of labels.
Labels transposed(const Labels &labels, TransposeOp op);

/// An operand of a product with one free and one contracted dimension; none of
/// another one. `row` is the free one where `isRowFree`, else the other.
std::optional<RowOperand> readOperand(DotGeneralOp op, bool isLhs,
                                      bool isRowFree);

/// Puts transposes that make the operand into the numbers of its dimensions.
void passTransposes(RowOperand &operand);

/// Whether `a` and `b` are the same value, made once or by two copies of pure
/// ops that move and convert elements.
bool isSameValue(mlir::Value a, mlir::Value b);

/// The number by which an op multiplies its other operand, element by element:
/// `scaled` is that operand. None where it does not.
std::optional<double> getFactor(mlir::Operation *op, mlir::Value &scaled);

/// Whether two factors are one number but for the rounding of f32.
bool isSameFactor(double a, double b);

} // namespace mpcomm

#endif // MPCOMM_LIB_TRANSFORMS_FUSION_ATTENTIONMATCHER_H
