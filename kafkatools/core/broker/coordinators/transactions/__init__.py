"""The transaction coordinator: transactional ids, kept in `__transaction_state`, and the markers that end
transactions."""
