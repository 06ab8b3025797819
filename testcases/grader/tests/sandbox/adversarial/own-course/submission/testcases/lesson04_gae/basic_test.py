def test_td_errors_by_hand():
    pass
